package names

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

const (
	deadlinesToken = ".deadlines."
	setToken       = "set."
	dueToken       = "due."
)

// Deadline is a time at which a worker checks a suspended run.
type Deadline struct {
	Tenant    string
	AgentType string
	Session   string
	RunID     string
	At        time.Time // in milliseconds, after 1970
}

func (d Deadline) check() error {
	if err := checkCommand(d.Tenant, d.AgentType, d.Session); err != nil {
		return err
	}
	if err := CheckToken("run", d.RunID); err != nil {
		return err
	}
	if d.At.UnixMilli() <= 0 {
		return newTokenError("deadline", d.At.String(), "want a time after 1970")
	}
	return nil
}

func (d Deadline) tokens() string {
	return d.Tenant + "." + d.AgentType + "." + idtoken.Of(d.Session) + "." + d.RunID + "." + strconv.FormatInt(d.At.UnixMilli(), 10)
}

// DeadlineStream returns the name of the stream of deadlines: TR_DEADLINES.
func (l Layout) DeadlineStream() string { return l.name("_DEADLINES") }

// Deadline are the subjects of a deadline: set, where it lies until then, and due, where the server puts it for a worker:
//
//	tr.deadlines.set.<tenant>.<agentType>.<session>.<run>.<ms>
//	tr.deadlines.due.<tenant>.<agentType>.<session>.<run>.<ms>
//
// Each deadline of a run has its own, so that the server, which clears set when it writes due, cannot clear another one. The error is a *TokenError, or says
// what is wrong with the Layout.
func (l Layout) Deadline(d Deadline) (set, due string, err error) {
	if err := l.Validate(); err != nil {
		return "", "", err
	}
	if err := d.check(); err != nil {
		return "", "", err
	}
	all := l.withDefaults().Prefix + deadlinesToken
	return all + setToken + d.tokens(), all + dueToken + d.tokens(), nil
}

// DueFilter returns the filter of due deadlines for the workers of one agent type, for all tenants: tr.deadlines.due.*.<agentType>.*.*.*. The error is like
// that of Deadline.
func (l Layout) DueFilter(agentType string) (string, error) {
	return valid(l.withDefaults().Prefix+deadlinesToken+dueToken+"*."+agentType+".*.*.*", l.Validate(), CheckToken("agent type", agentType))
}

// AllDeadlines returns the filter tr.deadlines.*.*.*.*.*.* of the stream of deadlines.
func (l Layout) AllDeadlines() string {
	return l.withDefaults().Prefix + deadlinesToken + "*.*.*.*.*.*"
}

// DeadlineFilters returns the filters of all deadlines that are not due yet, tr.deadlines.set.*.*.*.*.*, and of those that are due,
// tr.deadlines.due.*.*.*.*.*.
func (l Layout) DeadlineFilters() (set, due string) {
	all := l.withDefaults().Prefix + deadlinesToken
	return all + setToken + "*.*.*.*.*", all + dueToken + "*.*.*.*.*"
}

// SessionDeadlines returns the filter tr.deadlines.*.<tenant>.*.<session>.*.* of all deadlines of a session. The error is like that of Deadline.
func (l Layout) SessionDeadlines(s chunk.Session) (string, error) {
	return valid(l.withDefaults().Prefix+deadlinesToken+"*."+s.Tenant+".*."+idtoken.Of(s.ID)+".*.*", l.check(s))
}

// SessionCommands returns the filter tr.commands.<tenant>.*.<session> of a session's commands. The error is like that of Command.
func (l Layout) SessionCommands(s chunk.Session) (string, error) {
	return valid(l.withDefaults().Prefix+commandsToken+s.Tenant+".*."+idtoken.Of(s.ID), l.check(s))
}

// ParseDue is the inverse of the due subject of Deadline. The error is a *ParseError.
func (l Layout) ParseDue(subject string) (Deadline, error) {
	prefix := l.withDefaults().Prefix
	rest, ok := cut(subject, prefix, deadlinesToken+dueToken)
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) != 5 {
		return Deadline{}, newParseError(subject, fmt.Sprintf("want %s%s%s<tenant>.<agentType>.<session>.<run>.<ms>", prefix, deadlinesToken, dueToken), nil)
	}
	ms, err := strconv.ParseInt(tokens[4], 10, 64)
	if err != nil || strconv.FormatInt(ms, 10) != tokens[4] {
		return Deadline{}, newParseError(subject, fmt.Sprintf("time %q: want Unix milliseconds", clip(tokens[4])), nil)
	}
	d := Deadline{Tenant: tokens[0], AgentType: tokens[1], RunID: tokens[3], At: time.UnixMilli(ms)}
	if d.Session, err = parseID("session", tokens[2]); err == nil {
		err = d.check()
	}
	if err != nil {
		return Deadline{}, newParseError(subject, err.Error(), err)
	}
	return d, nil
}
