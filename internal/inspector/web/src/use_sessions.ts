import { useEffect, useRef, useState } from "preact/hooks";

import { getJSON, Problem, type ListedSession, type SessionList, type Summary } from "./api.js";

/** The first page is requested again after this time while it is visible, in milliseconds, and the totals after the other one: the server keeps them as long. */
const refresh = 2_000;
const refreshTotals = 10_000;

/** usePolled requests JSON again and again while the page is visible, or if every is 0, until there is a response. */
function usePolled<T>(path: string, every: number, attempt: number): { value: T | undefined; problem: Problem | undefined } {
  const [value, setValue] = useState<{ path: string; of: T }>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const load = async () => {
      let wait = every;
      if (!document.hidden) {
        try {
          const of = await getJSON<T>(path, stop.signal);
          setValue({ path, of });
          setProblem(undefined);
          if (every === 0) return;
        } catch (error) {
          if (stop.signal.aborted) return;
          setProblem(error instanceof Problem ? error : new Problem(0, "", "The server cannot be reached.", 0));
          if (error instanceof Problem && (error.status === 401 || error.status === 400)) return;
          wait = (error instanceof Problem && error.after) || refresh;
        }
      }
      timer = setTimeout(() => void load(), wait || refresh);
    };
    void load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, every, attempt]);
  return { value: value?.path === path ? value.of : undefined, problem };
}

/**
 * useSessions requests the first page of the list again and again, or only once, the totals less often, and further pages when the user asks for them. While hold is true, rows
 * keep their places, and sessions that are not shown yet are counted.
 */
export function useSessions(filter: string, range: string, once: boolean, hold: boolean) {
  const [attempt, setAttempt] = useState(0);
  const [earlier, setEarlier] = useState<{ filter: string; list: SessionList }>();
  const [failure, setFailure] = useState<Problem>();
  const { value: first, problem } = usePolled<SessionList>(`/v1/sessions?${filter}`, once ? 0 : refresh, attempt);
  const { value: summary } = usePolled<Summary>(`/v1/sessions/summary?${range}`, refreshTotals, attempt);
  const further = earlier?.filter === filter ? earlier.list : undefined;

  const more = async () => {
    const before = (further ?? first)?.before;
    if (before === undefined || before === null) return;
    setFailure(undefined);
    try {
      const page = await getJSON<SessionList>(`/v1/sessions?${filter}&before=${encodeURIComponent(before)}`);
      setEarlier({ filter, list: { ...page, sessions: [...(further?.sessions ?? []), ...page.sessions] } });
    } catch (error) {
      if (error instanceof Problem) setFailure(error);
    }
  };

  useEffect(() => setFailure(undefined), [filter]);

  const last = useRef<{ filter: string; rows: ListedSession[] }>({ filter: "", rows: [] });
  const present = first === undefined ? undefined : merged(first, further);
  let rows = present ?? [];
  let fresh = 0;
  if (hold && last.current.filter === filter) {
    const known = new Map(rows.map((row) => [row.session.id, row]));
    const shown = new Set(last.current.rows.map((row) => row.session.id));
    const older = further === undefined ? [] : rows.filter((row) => !shown.has(row.session.id) && further.sessions.includes(row));
    fresh = rows.filter((row) => !shown.has(row.session.id)).length - older.length;
    rows = [...last.current.rows.map((row) => known.get(row.session.id) ?? row), ...older];
  }
  if (present !== undefined) last.current = { filter, rows };

  const end = further ?? first;
  return { rows, loaded: present !== undefined, fresh, end, summary, problem: problem ?? failure, again: () => (setFailure(undefined), setAttempt((n) => n + 1)), more };
}

/** merged returns the rows of the first page and of those that were requested before, each session once. */
function merged(first: SessionList, further: SessionList | undefined): ListedSession[] {
  const known = new Set(first.sessions.map((row) => row.session.id));
  return [...first.sessions, ...(further?.sessions ?? []).filter((row) => !known.has(row.session.id))];
}
