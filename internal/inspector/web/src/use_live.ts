import { useEffect, useMemo, useState } from "preact/hooks";

import { LiveSession, type Reading } from "./live.js";

/** useLive follows a session while the component is shown, and renders it again with each change. It returns undefined for an empty id. */
export function useLive(id: string, reading: Reading = {}): LiveSession | undefined {
  const [attempt, setAttempt] = useState(0);
  const [, render] = useState(0);
  const live = useMemo(() => (id === "" ? undefined : new LiveSession(id, reading)), [id, reading.view, attempt]);
  if (live !== undefined) live.again = () => setAttempt((n) => n + 1);
  useEffect(() => {
    if (live === undefined) return;
    const unsubscribe = live.subscribe(() => render((n) => n + 1));
    return () => {
      unsubscribe();
      live.close();
    };
  }, [live]);
  return live;
}
