import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A dialog above the page. The browser moves the focus into it and back, and closes it with Esc. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = box.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={box} class="dialog" aria-label={title} onCancel={onClose} onKeyDown={(event) => event.stopPropagation()}>
      <div class="heading">
        <h2>{title}</h2>
        <button type="button" onClick={onClose}>Close</button>
      </div>
      {children}
    </dialog>
  );
}

/** A text to copy. */
export function Copy({ text, label }: { text: string; label: string }) {
  const field = useRef<HTMLInputElement>(null);
  const copy = () => {
    field.current?.select();
    void navigator.clipboard?.writeText(text); // without TLS there is no clipboard: the text is selected
  };
  return (
    <div class="copy">
      <input ref={field} readOnly value={text} aria-label={label} onFocus={(event) => event.currentTarget.select()} />
      <button type="button" onClick={copy}>Copy</button>
    </div>
  );
}
