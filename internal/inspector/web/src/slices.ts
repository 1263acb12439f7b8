import { useEffect, useState } from "preact/hooks";

/** The longest time that a slice of work takes, in milliseconds: the page draws and handles keys between slices. */
const slice = 8;

/** inSlices runs a generator to its end, with pauses for the page. It throws the reason of the signal. */
export async function inSlices<T>(work: Generator<void, T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    for (const end = performance.now() + slice; performance.now() < end; ) {
      const step = work.next();
      if (step.done === true) return step.value;
    }
    await new Promise((resolve) => setTimeout(resolve));
    signal.throwIfAborted();
  }
}

/** useSlices returns the result of work, undefined until it is there. Work for other inputs ends the earlier one, whose result stays until then if keep is set. */
export function useSlices<T>(work: () => Generator<void, T>, inputs: readonly unknown[], keep = false): T | undefined {
  const [result, setResult] = useState<T>();
  useEffect(() => {
    const stop = new AbortController();
    if (!keep) setResult(undefined);
    inSlices(work(), stop.signal).then(
      (value) => stop.signal.aborted || setResult(() => value),
      (error: unknown) => {
        if (!stop.signal.aborted) throw error;
      },
    );
    return () => stop.abort();
  }, inputs);
  return result;
}
