import { useEffect, useState } from "preact/hooks";

import type { LogRecord } from "../../../../clients/ts/src/outline.js";
import { exactTime } from "./format.js";
import { useKeys } from "./keys.js";
import { countUpTo, Player } from "./replay.js";

const speeds = [0.5, 1, 2, 8] as const;

/** The position in a session. At 0 the page follows the session. */
export function Scrubber({ records, at, onSeek }: { records: readonly LogRecord[]; at: number; onSeek: (sequence: number) => void }) {
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const count = at === 0 ? records.length : countUpTo(records, at);
  const go = (n: number) => onSeek(n >= records.length ? 0 : (records[Math.max(n, 1) - 1]?.sequence ?? 0));

  useEffect(() => {
    if (!playing) return;
    const player = new Player(records, count >= records.length ? 1 : count, speed);
    let frame = 0;
    const step = () => {
      const n = player.next();
      go(n);
      if (n >= records.length) setPlaying(false);
      else frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed]);

  const stopAt = (n: number) => (setPlaying(false), go(n));
  useKeys({ " ": () => setPlaying(!playing), ",": () => stopAt(count - 1), ".": () => stopAt(count + 1), e: () => stopAt(records.length) });
  const record = records[count - 1];
  return (
    <div class="scrubber" role="group" aria-label="Position">
      <button type="button" aria-label="one record back" onClick={() => stopAt(count - 1)}>‹</button>
      <button type="button" onClick={() => setPlaying(!playing)}>{playing ? "Pause" : "Play"}</button>
      <button type="button" aria-label="one record forward" onClick={() => stopAt(count + 1)}>›</button>
      <select aria-label="Speed" value={String(speed)} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
        {speeds.map((n) => <option key={n} value={String(n)}>{n}×</option>)}
      </select>
      <input type="range" aria-label="Record" min={1} max={Math.max(records.length, 1)} value={count} onInput={(event) => stopAt(Number(event.currentTarget.value))} />
      {record !== undefined && <span class="number">#{record.sequence}<span class="wide"> {exactTime(record.time).slice(11, 23)}</span></span>}
      <button type="button" aria-pressed={at === 0} onClick={() => stopAt(records.length)}>Latest</button>
    </div>
  );
}
