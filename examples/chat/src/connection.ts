import { useEffect, useRef, useState } from 'react';
import { isTemporary } from './problem';

// useReconnect comes back after a broken connection: the AI SDK does so only when
// a page is opened or shown again. Each attempt in vain makes the next pause longer.
//
// What happened to an attempt is told by callbacks, and kept beside React's state:
// a status is rendered some time after the fact, or never.
export function useReconnect(resumeStream: () => Promise<void>) {
  const [reconnecting, setReconnecting] = useState(false);
  const link = useRef({ open: true, broken: false, comingBack: false, failures: 0 });

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
    while (here.open && here.broken) {
      const pause = Math.min(100 * 2 ** here.failures, 10_000);
      await new Promise((resolve) => setTimeout(resolve, pause));
      here.broken = false;
      here.failures += 1;
      if (here.open) await resumeStream();
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
    // A response has ended: it was there, so the next pause is short again.
    onFinish: ({ isDisconnect }: { isDisconnect: boolean }) => {
      link.current.broken = isDisconnect;
      link.current.failures = 0;
    },
  };
}
