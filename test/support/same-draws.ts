import fc from 'fast-check';

/**
 * Properties draw the same cases in each run, so that a change which breaks one is the one that is seen to fail. To look
 * for new cases, name another seed: `HOLDFAST_DRAWS=7 npm test -- --project property`.
 */
fc.configureGlobal({ seed: Number(process.env.HOLDFAST_DRAWS ?? 20_261_117) });
