import { useEffect, useState } from 'react';
import { setCookie } from './token';

// Log shows how many events the log of a chat has, from the event stream of the session.
export function Log({ id }: { id: string }) {
  const [open, setOpen] = useState(false);
  const events = useEvents(id, open);
  return (
    <details className="log" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Log</summary>
      <output data-last={events.last} data-opened={events.opened}>{events.count}</output> events
    </details>
  );
}

const nothing = { count: 0, last: '', opened: 0 };

// useEvents follows a session with an EventSource. The browser reconnects by itself after a lost connection, with
// the cookie; after a response with an error, such as 401 for an expired cookie, it gives up: then this sets a new
// cookie and continues after the last event.
function useEvents(id: string, open: boolean) {
  const [events, setEvents] = useState(nothing);
  useEffect(() => {
    if (!open) return;
    setEvents(nothing);
    let source: EventSource | undefined;
    let timer: number | undefined;
    let stopped = false;
    let last = '';
    const connect = async () => {
      await setCookie().catch(() => undefined); // the stream is refused then, and this tries again
      if (stopped) return;
      source = new EventSource(`/v1/sessions/${encodeURIComponent(id)}/events${last && `?after=${last}`}`);
      source.onopen = () => setEvents((now) => ({ ...now, opened: now.opened + 1 }));
      source.onmessage = (event) => {
        last = event.lastEventId;
        setEvents((now) => ({ ...now, last: event.lastEventId, count: now.count + 1 }));
      };
      source.onerror = () => {
        if (source?.readyState === EventSource.CLOSED) timer = setTimeout(connect, 1000);
      };
    };
    void connect();
    return () => {
      stopped = true;
      clearTimeout(timer);
      source?.close();
    };
  }, [id, open]);
  return events;
}
