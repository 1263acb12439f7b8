import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { FollowOptions } from "./follow.js";
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
