package sse

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

// pieceSize is the number of bytes that are written with one deadline. A client makes progress if it accepts them within the write timeout; a larger piece
// would close the stream of a slow reader during a long catch-up, a smaller one costs system calls.
const pieceSize = 16 << 10

// Writer sends frames to one client. It belongs to one goroutine, that of the request.
type Writer struct {
	w            http.ResponseWriter
	control      *http.ResponseController
	writeTimeout time.Duration
	deadline     time.Time // the write deadline that is set on the connection
	wrote        time.Time // time of the last completed write
	small        []byte    // ids and comments are built here

	multiplexed bool
}

// NewWriter returns a Writer that fails if the client accepts no data for writeTimeout (and at most a quarter longer: the deadline is not extended for every
// frame). It sends nothing yet.
func NewWriter(w http.ResponseWriter, writeTimeout time.Duration) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), writeTimeout: writeTimeout}
}

// SetMultiplexed is for one of several streams of an HTTP/2 connection. There a deadline resets the stream when it passes, also while nothing is written: a
// silent session would count as a stalled client. So the deadline is removed whenever everything has been sent. (In HTTP/1 it only affects writes, and stays,
// which is cheaper.)
func (w *Writer) SetMultiplexed() { w.multiplexed = true }

// Open sets the headers of an event stream, sends them with status 200 and flushes, so that the client is connected at once. If retry is not 0, it sends it as
// the reconnect delay. It fails if the ResponseWriter can neither flush nor set a deadline: with a middleware that hides them, no guarantee of this package
// holds.
func (w *Writer) Open(retry time.Duration) error {
	h := w.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := w.extendDeadline(); err != nil {
		return err
	}
	w.w.WriteHeader(http.StatusOK)
	if retry > 0 {
		return w.Event(Event{Retry: retry})
	}
	return w.flush()
}

// Send writes whole frames and, if id is not empty, an event with only that id after them, in as few writes as possible, and flushes. After an error the
// connection cannot be used any more: the client has disconnected, or does not read (then it is an os.ErrDeadlineExceeded), or id is unsafe.
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

// LastWrite returns the time of the last completed write; heartbeats are due after that.
func (w *Writer) LastWrite() time.Time { return w.wrote }

func (w *Writer) write(b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), pieceSize)]
		if err := w.extendDeadline(); err != nil {
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

// Complete removes the write deadline after the last frame. It would otherwise remain on the connection and abort the next response.
//
// A stream must not close its connection by "Connection: close" instead: fetch of Node.js 20 then takes every end of the connection for the end of the response,
// also if the process was killed.
func (w *Writer) Complete() error {
	w.deadline = time.Time{}
	return w.control.SetWriteDeadline(w.deadline)
}

// failed adds os.ErrDeadlineExceeded if the deadline has passed and the error of a write does not have it: in HTTP/2 a write only reports that its stream has
// ended.
func (w *Writer) failed(err error) error {
	if w.multiplexed && !time.Now().Before(w.deadline) {
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	}
	return err
}

// extendDeadline ensures that at least the write timeout remains before the deadline. It adds a quarter, so that at a thousand frames per second the deadline
// is set every few seconds and not for each frame.
func (w *Writer) extendDeadline() error {
	now := time.Now()
	if w.deadline.Sub(now) >= w.writeTimeout {
		return nil
	}
	w.deadline = now.Add(w.writeTimeout + w.writeTimeout/4)
	return w.control.SetWriteDeadline(w.deadline)
}
