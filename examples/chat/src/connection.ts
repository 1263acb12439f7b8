import { useEffect, useRef, useState } from 'react';
import type { Cursor } from './cursor';
import { isTemporary } from './problem';

// useReconnect reconnects after a broken connection; the AI SDK does so only when a page is opened or shown
// again. The delay grows with each failed attempt.
//
// The result of an attempt is reported by callbacks and stored outside of React's state, because a status may
// be rendered late or never.
export function useReconnect(cursor: Cursor, resumeStream: () => Promise<void>) {
  const [reconnecting, setReconnecting] = useState(false);
  const link = useRef({ open: true, broken: false, comingBack: false });

  useEffect(() => {
    const here = link.current;
    here.open = true;
    return () => {
      here.open = false;
    };
  }, []);

  async function comeBack() {
    const here = link.current;
    here.comingBack = true;
    setReconnecting(true);
    for (let inVain = 0; here.open && here.broken; inVain++) {
      const pause = Math.min(100 * 2 ** inVain, 10_000);
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (!here.open) break;
      const before = cursor.id;
      here.broken = false;
      await resumeStream();
      if (cursor.id !== before) inVain = -1;
    }
    here.comingBack = false;
    setReconnecting(false);
  }

  return {
    reconnecting,
    // A request has failed. If it was the end of a response, onFinish follows and has the details; without a
    // response there is no onFinish.
    onError: (error: Error) => {
      link.current.broken = isTemporary(error);
      queueMicrotask(() => {
        if (link.current.broken && !link.current.comingBack) void comeBack();
      });
    },
    // A response has completed or failed.
    onFinish: ({ isDisconnect }: { isDisconnect: boolean }) => {
      link.current.broken = isDisconnect;
    },
  };
}
