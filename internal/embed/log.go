package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger adapts slog to the logger of nats-server. The default logger would end
// the process on a fatal line; this one records it, and Start returns it.
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

// Noticef logs the steps of start and shutdown at debug level.
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats-server: " + fmt.Sprintf(format, v...))
}

// Warnf logs a warning.
func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats-server: " + fmt.Sprintf(format, v...))
}

// Errorf logs an error.
func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats-server: " + fmt.Sprintf(format, v...))
}

// Fatalf logs and records the reason why the server cannot start.
func (l *logger) Fatalf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.log.Error("nats-server: " + line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = errors.New("NATS server: " + line)
	}
}

// Debugf is not called: Start does not enable debug output.
func (l *logger) Debugf(string, ...any) {}

// Tracef is not called: Start does not enable trace output.
func (l *logger) Tracef(string, ...any) {}
