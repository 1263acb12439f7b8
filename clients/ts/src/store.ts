import { followSession, type FollowOptions } from "./follow.js";
import { emptyTree, reduceTree, type Tree } from "./tree.js";

/** What a page shows of a session. */
export interface SessionView {
  tree: Tree;
  /** loading: nothing yet; open: events arrive; waiting: the connection was lost; complete: the run is over; failed: see error. */
  connection: "loading" | "open" | "waiting" | "complete" | "failed";
  /** Why the connection is waiting or failed. */
  error: unknown;
}

/** A followed session that notifies its subscribers, in the form of useSyncExternalStore. */
export interface SessionStore {
  getSnapshot(): SessionView;
  subscribe(listener: () => void): () => void;
  /** Ends the connection. */
  close(): void;
}

/** The time, in milliseconds, in which events are shown together: a page need not be drawn for each of a hundred deltas. */
const batch = 16;

/** createSessionStore follows a session until it is closed or complete. Other frameworks than React bind to it. */
export function createSessionStore(options: Omit<FollowOptions, "signal" | "onRetry">): SessionStore {
  const listeners = new Set<() => void>();
  const stopped = new AbortController();
  let view: SessionView = { tree: emptyTree(options.session), connection: "loading", error: undefined };
  let next = view;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    timer = undefined;
    view = next;
    for (const listener of [...listeners]) listener();
  };
  const set = (change: Partial<SessionView>) => {
    if (stopped.signal.aborted) return;
    next = { ...next, ...change };
    timer ??= setTimeout(flush, batch);
  };
  const run = async () => {
    try {
      const events = followSession({ ...options, signal: stopped.signal, onRetry: ({ error }) => set({ connection: "waiting", error }) });
      for await (const event of events) set({ tree: reduceTree(next.tree, event), connection: "open", error: undefined });
      set({ connection: "complete", error: undefined });
    } catch (error) {
      set({ connection: "failed", error });
    }
  };
  void run();
  return {
    getSnapshot: () => view,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => {
      clearTimeout(timer);
      stopped.abort();
    },
  };
}
