import { options, render } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Bar } from "./bar.js";
import { Compare } from "./compare_page.js";
import { storedHere } from "./export.js";
import { SessionPage } from "./session.js";
import { Sessions } from "./sessions.js";
import { SharedPage } from "./shared.js";
import { Start } from "./start.js";
import { StoredPage } from "./stored.js";

// Effects run right after a rendering. By default they run after the next frame, which comes late on a busy machine: keys and responses before it were lost.
options.requestAnimationFrame = queueMicrotask;

/** The address of the page: paths and queries are those of the history of the browser. */
function useAddress(): URL {
  const [href, setHref] = useState(location.href);
  useEffect(() => {
    const changed = () => setHref(location.href);
    addEventListener("popstate", changed);
    return () => removeEventListener("popstate", changed);
  }, []);
  return new URL(href);
}

/** The address of the session of a link. */
const shared = "/inspect/shared";

function App() {
  const { pathname } = useAddress();
  const session = /^\/inspect\/s\/([^/]+)$/.exec(pathname)?.[1];
  if (session !== undefined) return <SessionPage key={session} id={decodeURIComponent(session)} />;
  if (pathname === "/inspect/compare") return <Compare />;
  if (pathname === shared) return <SharedPage />;
  if (pathname.startsWith("/inspect")) return <Sessions />;
  return <Start />;
}

const root = document.getElementById("app");
const stored = storedHere();
if (root !== null) {
  render(
    <>
      <Bar alone={stored !== undefined || location.pathname === shared} />
      {stored === undefined ? <App /> : <StoredPage stored={stored} />}
    </>,
    root,
  );
}
