import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { FollowOptions } from "./follow.js";
import { sessions as load, type SessionsOptions } from "./sessions.js";
import type { ListedSession } from "./snapshot.js";
import { createSessionStore, type SessionStore, type SessionView } from "./store.js";
import { emptyTree } from "./tree.js";

const noSubscription = () => () => {};

/**
 * useSession follows a session while the component is mounted, and returns its tree. It connects again if the url, the session or another option that is a string
 * changes; of the functions, those of the first render of a connection are used.
 */
export function useSession(options: Omit<FollowOptions, "signal" | "onRetry">): SessionView {
  const { url, session, root, token, cursor, scope, view } = options;
  const key = JSON.stringify([url, session, root, token, cursor, scope, view, options.types, options.exclude]);
  const [opened, setOpened] = useState<{ key: string; store: SessionStore }>();
  const loading = useMemo((): SessionView => ({ tree: emptyTree(session), connection: "loading", error: undefined }), [session]);
  useEffect(() => {
    const store = createSessionStore(options);
    setOpened({ key, store });
    return () => store.close();
    // The key has every option that selects what is followed.
  }, [key]);
  const store = opened?.key === key ? opened.store : undefined;
  return useSyncExternalStore(store?.subscribe ?? noSubscription, store?.getSnapshot ?? (() => loading), () => loading);
}

/** A list of sessions. */
export interface SessionList {
  sessions: ListedSession[];
  /** A page is being loaded. */
  loading: boolean;
  /** Why the last page was not loaded. */
  error: unknown;
  /** Loads the next page; undefined after the last one. */
  more: (() => void) | undefined;
  /** Loads the list again. */
  reload: () => void;
}

interface Listed {
  key: string;
  sessions: ListedSession[];
  before: string | null;
  loading: boolean;
  error: unknown;
}

/** useSessions lists the root sessions, the one that was saved last first. It loads the list when the component is mounted, when an option changes, and with reload. */
export function useSessions(options: Omit<SessionsOptions, "signal" | "onRetry" | "before">): SessionList {
  const key = JSON.stringify(options); // without the functions
  const latest = useRef(options);
  latest.current = options;
  const running = useRef(new AbortController());
  const none: Listed = { key, sessions: [], before: null, loading: true, error: undefined };
  const [listed, setListed] = useState(none);
  const request = useCallback(
    async (before: string | null) => {
      running.current.abort();
      const { signal } = (running.current = new AbortController());
      setListed((now) => (now.key === key ? { ...now, loading: true } : none));
      try {
        const page = await load({ ...latest.current, ...(before !== null && { before }), signal });
        setListed((now) => ({ key, sessions: [...(before === null ? [] : now.sessions), ...page.sessions], before: page.before, loading: false, error: undefined }));
      } catch (error) {
        if (!signal.aborted) setListed((now) => ({ ...now, loading: false, error }));
      }
    },
    [key],
  );
  const reload = useCallback(() => void request(null), [request]);
  useEffect(() => {
    reload();
    return () => running.current.abort();
  }, [reload]);
  const { sessions, before, loading, error } = listed.key === key ? listed : none;
  return { sessions, loading, error, more: before === null || loading ? undefined : () => void request(before), reload };
}
