package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger is a logger of nats-server over slog. The server's own would end the
// process at a fatal line; this one keeps it, and Start returns it.
type logger struct {
	log *slog.Logger

	mu    sync.Mutex // guards first
	first error      // the first fatal line
}

func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Noticef is called for each step of starting and stopping.
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats-server: " + fmt.Sprintf(format, v...))
}

// Warnf is called for what an operator should look at.
func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats-server: " + fmt.Sprintf(format, v...))
}

// Errorf is called for what went wrong.
func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats-server: " + fmt.Sprintf(format, v...))
}

// Fatalf is called when the server cannot start.
func (l *logger) Fatalf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.log.Error("nats-server: " + line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = errors.New("NATS server: " + line)
	}
}

// Debugf and Tracef are never called: Start does not ask for them.
func (l *logger) Debugf(string, ...any) {}

// Tracef is the other one.
func (l *logger) Tracef(string, ...any) {}
