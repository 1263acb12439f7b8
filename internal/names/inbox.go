package names

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

const inboxToken = ".inbox."

// Inbox returns the name of the key-value bucket with the answers to the calls of runs and the requests to stop runs: TR_INBOX.
func (l Layout) Inbox() string { return l.name("_INBOX") }

// InboxAnswerKey returns the key of the answer to one call of a run: <tenant>.<root>.<session>.<run>.answer.<call>. A model chooses the id of a call freely, so
// its token is the first half of the id's SHA-256 in hex. The error is a *TokenError.
func InboxAnswerKey(s chunk.Session, run, call string) (string, error) {
	prefix, err := inboxRun(s, run)
	return valid(prefix+".answer."+hashToken(call), err)
}

// InboxAnswerKeys returns the filter <tenant>.<root>.<session>.<run>.answer.* of all answers to a run. The error is a *TokenError.
func InboxAnswerKeys(s chunk.Session, run string) (string, error) {
	prefix, err := inboxRun(s, run)
	return valid(prefix+".answer.*", err)
}

// InboxStopKey returns the key of the stop request of a run: <tenant>.<root>.<session>.<run>.stop. The error is a *TokenError.
func InboxStopKey(s chunk.Session, run string) (string, error) {
	prefix, err := inboxRun(s, run)
	return valid(prefix+".stop", err)
}

// InboxQueuedKey returns the key of a message that waits until the run of a session ends: <tenant>.<root>.<session>.<run>.queued, with the run that will answer
// it. The error is a *TokenError.
func InboxQueuedKey(s chunk.Session, run string) (string, error) {
	prefix, err := inboxRun(s, run)
	return valid(prefix+".queued", err)
}

// InboxQueuedKeys returns the filter <tenant>.<root>.<session>.*.queued of all messages of a session that wait. The error is a *TokenError.
func InboxQueuedKeys(s chunk.Session) (string, error) {
	return valid(sessionTokens(s)+".*.queued", CheckSession(s))
}

// InboxAllQueuedKeys returns the filter *.*.*.*.queued of all messages that wait.
func InboxAllQueuedKeys() string { return "*.*.*.*.queued" }

// ParseInboxQueuedKey returns the session of a key of InboxQueuedKey. The error is a *ParseError.
func ParseInboxQueuedKey(key string) (chunk.Session, error) {
	tokens := strings.Split(key, ".")
	if len(tokens) != 5 || tokens[4] != "queued" {
		return chunk.Session{}, newParseError(key, "want <tenant>.<root>.<session>.<run>.queued", nil)
	}
	s, err := parseSession(tokens[0], tokens[1], tokens[2])
	if err != nil {
		return chunk.Session{}, newParseError(key, err.Error(), err)
	}
	return s, nil
}

// InboxSessionKeys returns the filter <tenant>.<root>.<session>.> of all keys of the runs of s. The error is a *TokenError.
func InboxSessionKeys(s chunk.Session) (string, error) {
	return valid(sessionTokens(s)+".>", CheckSession(s))
}

// InboxHints returns the filter tr.inbox.<tenant>.<root>.<session>.<run>.> of the hints that the server publishes for each value stored for a run. The error is
// a *TokenError, or reports an invalid Layout.
func (l Layout) InboxHints(s chunk.Session, run string) (string, error) {
	if err := l.Validate(); err != nil {
		return "", err
	}
	prefix, err := inboxRun(s, run)
	return valid(l.withDefaults().Prefix+inboxToken+prefix+".>", err)
}

// AllInboxHints returns the filter tr.inbox.> of all hints.
func (l Layout) AllInboxHints() string { return l.withDefaults().Prefix + inboxToken + ">" }

func inboxRun(s chunk.Session, run string) (string, error) {
	return valid(sessionTokens(s)+"."+run, CheckSession(s), CheckToken("run", run))
}
