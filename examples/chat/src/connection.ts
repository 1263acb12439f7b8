import { useEffect, useRef, useState } from 'react';
import type { Cursor } from './cursor';
import { isTemporary } from './problem';

// useReconnect comes back after a broken connection: the AI SDK does so only when
// a page is opened or shown again. Each attempt in vain makes the next pause longer.
//
// What happened to an attempt is told by callbacks, and kept beside React's state:
// a status is rendered some time after the fact, or never.
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
    // A request has failed. If that was the end of a response, onFinish comes next
    // and knows better; without a response there is no onFinish.
    onError: (error: Error) => {
      link.current.broken = isTemporary(error);
      queueMicrotask(() => {
        if (link.current.broken && !link.current.comingBack) void comeBack();
      });
    },
    // A response has ended, well or not.
    onFinish: ({ isDisconnect }: { isDisconnect: boolean }) => {
      link.current.broken = isDisconnect;
    },
  };
}
