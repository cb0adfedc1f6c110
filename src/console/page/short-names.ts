/** Functions that the page calls often. The bundle uses them for `Math.max` and the like, because it can shorten these names. */
const { floor, max, min, round } = Math;

export { floor as 'Math.floor', max as 'Math.max', min as 'Math.min', round as 'Math.round' };
