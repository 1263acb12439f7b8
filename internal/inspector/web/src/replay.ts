import { Outline, outlineOf, type LogRecord } from "../../../../clients/ts/src/outline.js";

/** An earlier state of a session: the outline of its first records. Moving forward applies the records between. */
export class Replay {
  outline = new Outline();
  private count = 0;

  /** records are those of the log without the removed ones. */
  constructor(readonly all: readonly LogRecord[]) {}

  /** seek returns the outline of the first n records. */
  seek(n: number): Outline {
    if (n < this.count) {
      this.outline = outlineOf(this.all.slice(0, n));
    } else {
      for (const record of this.all.slice(this.count, n)) this.outline.apply(record);
    }
    this.count = n;
    return this.outline;
  }
}

/** countUpTo returns the number of records up to a sequence. */
export function countUpTo(records: readonly LogRecord[], sequence: number): number {
  let [low, high] = [0, records.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((records[middle]?.sequence ?? 0) <= sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A longer time without a record takes this long in a replay, in milliseconds. */
const longestPause = 1_000;

/** A clock that follows the times of records, at a speed. */
export class Player {
  private started = performance.now();
  private passed = 0; // of the times of the records since the start

  constructor(
    private readonly records: readonly LogRecord[],
    private index: number,
    private readonly speed: number,
  ) {}

  /** next returns the number of records that are shown now. */
  next(): number {
    const target = (performance.now() - this.started) * this.speed;
    while (this.index < this.records.length) {
      const pause = (this.records[this.index]?.time ?? 0) - (this.records[this.index - 1]?.time ?? 0);
      const after = this.passed + Math.min(this.index === 0 ? 0 : pause, longestPause);
      if (after > target) break;
      this.passed = after;
      this.index++;
    }
    return this.index;
  }
}
