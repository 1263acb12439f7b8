import { useCallback, useEffect, useState } from 'react';
import { Chat } from './chat';
import { Log } from './log';
import { Login } from './login';
import { explain } from './problem';
import { loadSnapshot, type Snapshot } from './snapshot';
import { SignedOut } from './token';

// App loads the chat that the URL names, and reloads it when the page no longer matches the log.
export function App() {
  const [id, setId] = useState(chatInAddress);
  const [loaded, setLoaded] = useState<{ id: string; snapshot: Snapshot; times: number }>();
  const [times, setTimes] = useState(0);
  const [notice, setNotice] = useState('');
  const [draft, setDraft] = useState('');
  const [signedOut, setSignedOut] = useState(false);

  useEffect(() => {
    const moved = () => setId(chatInAddress());
    window.addEventListener('hashchange', moved);
    return () => window.removeEventListener('hashchange', moved);
  }, []);

  useEffect(() => {
    const abort = new AbortController();
    let retry: number | undefined;
    loadSnapshot(id, abort.signal).then(
      (snapshot) => setLoaded({ id, snapshot, times }),
      (error) => {
        if (abort.signal.aborted) return;
        if (error instanceof SignedOut) return setSignedOut(true);
        setNotice(explain(error));
        retry = setTimeout(() => setTimes((n) => n + 1), 2000);
      },
    );
    return () => {
      abort.abort();
      clearTimeout(retry);
    };
  }, [id, times]);

  const reload = useCallback((why = '') => {
    setNotice(why);
    setTimes((n) => n + 1);
  }, []);

  return (
    <>
      <header>
        <h1>Tailrace chat</h1>
        <a href={`#${crypto.randomUUID()}`}>New chat</a>
      </header>
      <p className="notice" role="status">{notice}</p>
      {signedOut && (
        <Login
          done={() => {
            setSignedOut(false);
            reload();
          }}
        />
      )}
      {!signedOut && loaded?.id === id && (
        <Chat
          key={`${id} ${loaded.times}`}
          id={id}
          snapshot={loaded.snapshot}
          reload={reload}
          draft={draft}
          setDraft={setDraft}
        />
      )}
      {!signedOut && <Log id={id} />}
    </>
  );
}

function chatInAddress(): string {
  if (location.hash.length < 2) history.replaceState(null, '', `#${crypto.randomUUID()}`);
  const id = location.hash.slice(1);
  try {
    return decodeURIComponent(id);
  } catch {
    return id; // typed by hand
  }
}
