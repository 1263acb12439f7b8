import { useEffect, useState } from 'react';
import { Chat } from './chat';

// App shows the chat that the address names.
export function App() {
  const [id, setId] = useState(chatInAddress);
  useEffect(() => {
    const moved = () => setId(chatInAddress());
    window.addEventListener('hashchange', moved);
    return () => window.removeEventListener('hashchange', moved);
  }, []);
  return (
    <>
      <header>
        <h1>Tailrace chat</h1>
        <a href={`#${crypto.randomUUID()}`}>New chat</a>
      </header>
      <Chat key={id} id={id} />
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
