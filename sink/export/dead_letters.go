package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tailrace/tailrace/sink/row"
)

// DeadLetters is a file with a line of JSON for each row that could not be delivered. The line says where the row is in the log and has no content.
type DeadLetters struct {
	mu   sync.Mutex
	file *os.File
}

// deadLetter is a line.
type deadLetter struct {
	Key         string    `json:"key"` // see Row.Key
	At          time.Time `json:"at"`
	StreamEpoch string    `json:"streamEpoch"`
	Partition   int32     `json:"partition"`
	Sequence    int64     `json:"sequence"`
	Tenant      string    `json:"tenant"`
	Root        string    `json:"root"`
	Session     string    `json:"session"`
	Kind        row.Kind  `json:"kind,omitempty"` // empty for a deletion
	Ordinal     int64     `json:"ordinal,omitempty"`
	Error       string    `json:"error"`
}

// OpenDeadLetters opens a file, to which lines are appended.
func OpenDeadLetters(path string) (*DeadLetters, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return &DeadLetters{file: file}, nil
}

// Close closes the file.
func (d *DeadLetters) Close() error { return d.file.Close() }

// add writes the lines of rows to the disk.
func (d *DeadLetters) add(rows []Row, cause error) error {
	if d == nil {
		return nil
	}
	var lines []byte
	for _, r := range rows {
		p := r.Place()
		l := deadLetter{
			Key: r.Key(), At: time.Now().UTC(), StreamEpoch: p.StreamEpoch, Partition: p.Partition, Sequence: p.Seq,
			Tenant: p.Tenant, Root: p.Root, Session: p.Session, Error: cause.Error(),
		}
		if r.Observation != nil {
			l.Kind, l.Ordinal = r.Kind, r.LastOrdinal
		}
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.file.Write(lines)
	if err := errors.Join(err, d.file.Sync()); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}
