import { render } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Bar } from "./bar.js";
import { SessionPage } from "./session.js";
import { Sessions } from "./sessions.js";
import { Start } from "./start.js";

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

function App() {
  const { pathname } = useAddress();
  const session = /^\/inspect\/s\/([^/]+)$/.exec(pathname)?.[1];
  if (session !== undefined) return <SessionPage key={session} id={decodeURIComponent(session)} />;
  if (pathname.startsWith("/inspect")) return <Sessions />;
  return <Start />;
}

const root = document.getElementById("app");
if (root !== null) {
  render(
    <>
      <Bar />
      <App />
    </>,
    root,
  );
}
