import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** How many rows above and below the visible ones are in the document. */
const spare = 10;

/** A list of rows of one height, of which the visible ones are in the document. With follow it stays at its end until the user scrolls up. */
export function VirtualList<T>(props: {
  rows: readonly T[];
  height: number;
  render: (row: T, index: number) => ComponentChildren;
  label: string;
  role: "grid" | "treegrid";
  follow?: boolean;
  /** The index of a row to scroll to when it changes. */
  reveal?: number | undefined;
}) {
  const { rows, height, render, follow = false, reveal } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, size: 600 });
  const atEnd = useRef(follow);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = () => setView({ top: element.scrollTop, size: element.clientHeight });
    const scrolled = () => {
      atEnd.current = follow && element.scrollTop + element.clientHeight >= element.scrollHeight - height;
      measure();
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", scrolled);
    };
  }, [follow, height]);

  useLayoutEffect(() => {
    const element = box.current;
    if (element !== null && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [rows.length]);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || reveal === undefined || reveal < 0) return;
    const top = reveal * height;
    if (top < element.scrollTop || top + height > element.scrollTop + element.clientHeight) {
      element.scrollTop = top - element.clientHeight / 2;
      atEnd.current = false; // rows may come before the event of this scroll
    }
  }, [reveal, height]);

  const first = Math.max(Math.trunc(view.top / height) - spare, 0);
  const last = Math.min(Math.ceil((view.top + view.size) / height) + spare, rows.length);
  return (
    <div class="virtual" ref={box} role={props.role} aria-label={props.label} aria-rowcount={rows.length} tabIndex={0}>
      <div class="virtual-space" style={{ height: `${rows.length * height}px` }}>
        <div class="virtual-rows" style={{ transform: `translateY(${first * height}px)` }}>
          {rows.slice(first, last).map((row, i) => render(row, first + i))}
        </div>
      </div>
    </div>
  );
}
