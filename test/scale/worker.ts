/** A thread that runs jobs, one after the other. */
import { parentPort } from 'node:worker_threads';
import { type Job, runJob } from './jobs.ts';

parentPort?.on('message', async (job: Job) => {
  const before = process.threadCpuUsage().user;
  const row = await runJob(job);
  parentPort?.postMessage({ row, seconds: (process.threadCpuUsage().user - before) / 1e6 });
});
