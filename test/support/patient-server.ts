import { createServer, type RequestListener, type Server } from 'node:http';

/**
 * An HTTP server of a test. It never closes an idle connection. By default Node closes one after five seconds, and a
 * request that is sent at that moment fails, although nothing is wrong.
 */
export const patientServer = (answer: RequestListener): Server => createServer({ keepAliveTimeout: 0 }, answer);
