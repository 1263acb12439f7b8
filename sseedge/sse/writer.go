package sse

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

// pieceSize is how much is given to the connection under one deadline. A client
// makes progress when it takes this much within the patience of the Writer; a
// larger piece would cut a slow reader in the middle of a long catch-up, a
// smaller one costs system calls.
const pieceSize = 16 << 10

// Writer sends frames to one client. It is for one goroutine, the one that
// net/http gave to the request.
type Writer struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	deadline time.Time // the write deadline that is set on the connection
	wrote    time.Time // when the last write went through
	small    []byte    // ids and comments are built here

	multiplexed bool
}

// NewWriter returns a Writer that gives up on a client which takes nothing for
// patience (and at most a quarter longer: the deadline is not moved for every
// frame). Nothing is sent yet.
func NewWriter(w http.ResponseWriter, patience time.Duration) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), patience: patience}
}

// Multiplexed tells the Writer that it writes one of many streams of an HTTP/2
// connection. There a deadline resets the stream when it passes, also while
// nobody writes: the silence of a session would be taken for a stall. So it is
// taken back whenever everything has been sent. (In HTTP/1 it is heeded by
// writes alone, and left where it is, which is cheaper.)
func (w *Writer) Multiplexed() { w.multiplexed = true }

// Open sets the headers of an event stream, sends them with status 200 and
// flushes, so that the client knows at once that it is connected; with retry, if
// not 0, goes how long the client shall wait before it comes back when it is cut.
// It fails when the ResponseWriter can neither flush nor set a deadline: a middleware that
// hides them would make every promise of this package void.
func (w *Writer) Open(retry time.Duration) error {
	h := w.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := w.arm(); err != nil {
		return err
	}
	w.w.WriteHeader(http.StatusOK)
	if retry > 0 {
		return w.Event(Event{Retry: retry})
	}
	return w.flush()
}

// Send writes whole frames and, when id is not empty, an event of that id alone
// behind them, in as few writes as they fit in, and flushes. An error means that
// the client is gone, or does not read (then it is an os.ErrDeadlineExceeded), or
// that id is unsafe; the connection is good for nothing more.
func (w *Writer) Send(frames []byte, id string) error {
	if err := w.write(frames); err != nil {
		return err
	}
	if id != "" {
		var err error
		if w.small, err = AppendID(w.small[:0], id); err != nil {
			return err
		}
		if err := w.write(w.small); err != nil {
			return err
		}
	}
	return w.flush()
}

// Event sends one event and flushes.
func (w *Writer) Event(e Event) error {
	var err error
	if w.small, err = e.Append(w.small[:0]); err != nil {
		return err
	}
	return w.Send(w.small, "")
}

// Comment sends a comment and flushes: a heartbeat.
func (w *Writer) Comment(text string) error {
	var err error
	if w.small, err = AppendComment(w.small[:0], text); err != nil {
		return err
	}
	return w.Send(w.small, "")
}

// Wrote says when the last write went through; heartbeats are due after that.
func (w *Writer) Wrote() time.Time { return w.wrote }

func (w *Writer) write(b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), pieceSize)]
		if err := w.arm(); err != nil {
			return err
		}
		if _, err := w.w.Write(piece); err != nil {
			return w.failed(err)
		}
		b = b[len(piece):]
	}
	return nil
}

func (w *Writer) flush() error {
	if err := w.control.Flush(); err != nil {
		return w.failed(err)
	}
	w.wrote = time.Now()
	if w.multiplexed {
		w.deadline = time.Time{}
		return w.control.SetWriteDeadline(w.deadline)
	}
	return nil
}

// failed says that the deadline has passed when the error of a write does not: in
// HTTP/2 a write is told that its stream is gone, and not why.
func (w *Writer) failed(err error) error {
	if w.multiplexed && !time.Now().Before(w.deadline) {
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	}
	return err
}

// arm sees to it that at least patience is left before the deadline. It is set
// a quarter further than asked, so that at a thousand frames a second it is
// moved every few seconds and not for each of them.
func (w *Writer) arm() error {
	now := time.Now()
	if w.deadline.Sub(now) >= w.patience {
		return nil
	}
	w.deadline = now.Add(w.patience + w.patience/4)
	return w.control.SetWriteDeadline(w.deadline)
}
