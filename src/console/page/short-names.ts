/** Functions that the page calls often, under names that can be shortened: the bundle uses them wherever a source says `Math.max`. */
const { floor, max, min, round } = Math;

export { floor as 'Math.floor', max as 'Math.max', min as 'Math.min', round as 'Math.round' };
