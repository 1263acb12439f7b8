import { useEffect, useMemo, useState } from "preact/hooks";

import { claimsOf, setBearer, takeToken, type Claims } from "./credential.js";
import { forgetEdge, useEdge } from "./edge.js";
import { timeOf } from "./format.js";
import { open } from "./link.js";
import { ShareEnded } from "./parts.js";
import { SessionView, useMarks } from "./session.js";
import { useLive } from "./use_live.js";

/** The tabs that a reader of a link has. */
const tabs = ["conversation", "timeline", "state", "records"] as const;

/** The session of a link. Its token is the only credential of the page. */
export function SharedPage() {
  const [token, setToken] = useState(takeToken);
  const claims = useMemo(() => {
    setBearer(token);
    forgetEdge();
    return claimsOf(token);
  }, [token]);
  useEffect(() => {
    const changed = () => location.hash !== "" && setToken(takeToken());
    addEventListener("hashchange", changed);
    return () => {
      removeEventListener("hashchange", changed);
      setBearer("");
      forgetEdge();
    };
  }, []);
  if (token === "") return <main><section class="card" role="alert"><h1>No link</h1><p>This address shows a session with a link that has its token.</p></section></main>;
  if (claims === undefined || claims.session === "") return <main><ShareEnded /></main>;
  return <SharedSession key={token} claims={claims} />;
}

function SharedSession({ claims }: { claims: Claims }) {
  const live = useLive(claims.session, { readOnly: true });
  const edge = useEdge();
  const [selected, setSelected] = useState("");
  const [at, setAt] = useState(0);
  const tab = tabs.find((name) => name === new URLSearchParams(location.search).get("tab")) ?? "conversation";
  const view = claims.view || edge?.view;
  useMarks(live);
  useEffect(() => void (document.title = `${claims.session}, shared`), [claims.session]);
  if (live === undefined) return null;
  return (
    <main class="session">
      <p class="notice">Shared view, {view ? `masked by ${view}, ` : ""}until {timeOf(claims.until)}.</p>
      <SessionView
        live={live} only={tabs} tab={tab} onTab={(name) => open(`${location.pathname}?tab=${name}`, true)} selected={selected} onSelect={setSelected} at={at} onSeek={setAt}
      />
    </main>
  );
}
