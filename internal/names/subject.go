package names

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

const (
	chunksToken      = ".chunks."
	commandsToken    = ".commands."
	deadLettersToken = ".deadletters."
)

// Subject returns the literal subject of s: tr.chunks.<p>.<tenant>.<root>.<session>. The error is a *TokenError, or reports an invalid Layout.
func (l Layout) Subject(s chunk.Session) (string, error) {
	return valid(l.partitionPrefix(l.Partition(s))+sessionTokens(s), l.check(s))
}

// Tree returns the filter tr.chunks.<p>.<tenant>.<root>.* of all sessions under the root of s, including the root.
func (l Layout) Tree(s chunk.Session) (string, error) {
	return valid(l.partitionPrefix(l.Partition(s))+treeTokens(s)+".*", l.check(s.Tree()))
}

// TenantFilter returns the filter of one tenant's sessions in partition p. The sessions of a tenant are in all partitions. The error is a *TokenError, or names
// the partition that does not exist.
func (l Layout) TenantFilter(p int, tenant string) (string, error) {
	if err := l.Validate(); err != nil {
		return "", err
	}
	if n := l.PartitionCount(); p < 0 || p >= n {
		return "", fmt.Errorf("partition %d: want 0 to %d", p, n-1)
	}
	return valid(l.partitionPrefix(p)+tenant+".*.*", CheckToken("tenant", tenant))
}

// AllFilter returns the filter of all messages in partition p, which is the subject of its stream: tr.chunks.<p>.*.*.*, so that a subject with more or fewer
// tokens is never stored.
func (l Layout) AllFilter(p int) string { return l.partitionPrefix(p) + "*.*.*" }

// AllChunks returns the filter tr.chunks.*.*.*.* of all messages in all partitions.
func (l Layout) AllChunks() string { return l.withDefaults().Prefix + chunksToken + "*.*.*.*" }

func (l Layout) partitionPrefix(p int) string {
	return l.withDefaults().Prefix + chunksToken + strconv.Itoa(p) + "."
}

func (l Layout) check(s chunk.Session) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return CheckSession(s)
}

// ParseError reports why a subject does not belong to this Layout. A stream contains such a subject only if another program wrote it.
type ParseError struct {
	Subject string // the input, truncated
	Problem string // why it is invalid
	Cause   error  // the *TokenError of an invalid token, otherwise nil
}

// Error returns the quoted subject and the expected form.
func (e *ParseError) Error() string {
	return fmt.Sprintf("subject %q: %s", e.Subject, e.Problem)
}

// Unwrap returns the *TokenError of an invalid token.
func (e *ParseError) Unwrap() error { return e.Cause }

// Parse is the inverse of Subject: it accepts exactly the output of Subject, in the partition of the session. The error is a *ParseError. The session shares
// the memory of the subject, but for ids that are escaped in it.
func (l Layout) Parse(subject string) (chunk.Session, error) {
	d := l.withDefaults()
	rest, ok := cut(subject, d.Prefix, chunksToken)
	if !ok {
		return chunk.Session{}, newParseError(subject, fmt.Sprintf("want %s%s<p>.<tenant>.<root>.<session>", d.Prefix, chunksToken), nil)
	}
	partition, rest, ok := strings.Cut(rest, ".")
	if !ok {
		return chunk.Session{}, newParseError(subject, "ends after the partition", nil)
	}
	tenant, root, id, ok := threeTokens(rest)
	if !ok {
		return chunk.Session{}, newParseError(subject, "want three tokens after the partition: tenant, root, session", nil)
	}
	s, err := parseSession(tenant, root, id)
	if err != nil {
		return chunk.Session{}, newParseError(subject, err.Error(), err)
	}
	if p := d.partitionOf(tenant, root); !isDecimal(partition, p) {
		return chunk.Session{}, newParseError(subject, fmt.Sprintf("this session belongs to partition %d of %d", p, d.PartitionCount()), nil)
	}
	return s, nil
}

// Command returns the subject of the commands for one session: tr.commands.<tenant>.<agentType>.<session>. The caller escapes an agent type that is not a
// token. The error is a *TokenError, or reports an invalid Layout.
func (l Layout) Command(tenant, agentType, session string) (string, error) {
	return valid(l.withDefaults().Prefix+commandsToken+tenant+"."+agentType+"."+idtoken.Of(session), l.Validate(), checkCommand(tenant, agentType, session))
}

// CommandFilter returns the filter of commands for the workers of one agent type, for all tenants: tr.commands.*.<agentType>.*. The error is like that of
// Command.
func (l Layout) CommandFilter(agentType string) (string, error) {
	return valid(l.withDefaults().Prefix+commandsToken+"*."+agentType+".*", l.Validate(), CheckToken("agent type", agentType))
}

// AllCommands returns the filter tr.commands.*.*.* of the work queue.
func (l Layout) AllCommands() string { return l.withDefaults().Prefix + commandsToken + "*.*.*" }

// ParseCommand is the inverse of Command. The error is a *ParseError.
func (l Layout) ParseCommand(subject string) (tenant, agentType, session string, err error) {
	d := l.withDefaults()
	rest, ok := cut(subject, d.Prefix, commandsToken)
	if ok {
		tenant, agentType, session, ok = threeTokens(rest)
	}
	if !ok {
		return "", "", "", newParseError(subject, fmt.Sprintf("want %s%s<tenant>.<agentType>.<session>", d.Prefix, commandsToken), nil)
	}
	if session, err = parseID("session", session); err == nil {
		err = checkCommand(tenant, agentType, session)
	}
	if err != nil {
		return "", "", "", newParseError(subject, err.Error(), err)
	}
	return tenant, agentType, session, nil
}

func checkCommand(tenant, agentType, session string) error {
	if err := CheckToken("tenant", tenant); err != nil {
		return err
	}
	if err := CheckToken("agent type", agentType); err != nil {
		return err
	}
	return CheckID("session", session)
}

// DeadLetter returns the subject of one message of s that could not be folded: tr.deadletters.<tenant>.<root>.<session>.<id>. Each has a subject of its own, so
// that a duplicate can be rejected. The error is a *TokenError, or reports an invalid Layout.
func (l Layout) DeadLetter(s chunk.Session, id string) (string, error) {
	return valid(l.withDefaults().Prefix+deadLettersToken+sessionTokens(s)+"."+id, l.check(s), CheckToken("dead letter", id))
}

// DeadLetters returns the filter of all dead letters of s: tr.deadletters.<tenant>.<root>.<session>.*. The error is like that of DeadLetter.
func (l Layout) DeadLetters(s chunk.Session) (string, error) {
	return valid(l.withDefaults().Prefix+deadLettersToken+sessionTokens(s)+".*", l.check(s))
}

// DeadLetterWithoutSession is DeadLetter for a message of partition p whose subject has no valid session: tr.deadletters.<p>.<id>.
func (l Layout) DeadLetterWithoutSession(p int, id string) (string, error) {
	return valid(l.withDefaults().Prefix+deadLettersToken+strconv.Itoa(p)+"."+id, l.Validate(), CheckToken("dead letter", id))
}

// AllDeadLetters returns the filters of all dead letters, which are the subjects of their stream: tr.deadletters.*.*.*.* and tr.deadletters.*.*.
func (l Layout) AllDeadLetters() []string {
	all := l.withDefaults().Prefix + deadLettersToken
	return []string{all + "*.*.*.*", all + "*.*"}
}

// cut splits two parts off the start of s without joining them first.
func cut(s, first, second string) (string, bool) {
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(s, second)
}

// threeTokens splits at the first two dots; a third one stays in c, where CheckToken rejects it.
func threeTokens(s string) (a, b, c string, ok bool) {
	a, s, ok = strings.Cut(s, ".")
	if !ok {
		return "", "", "", false
	}
	b, c, ok = strings.Cut(s, ".")
	return a, b, c, ok
}

// isDecimal reports whether s is n as strconv formats it: "0" and not "00".
func isDecimal(s string, n int) bool {
	var buf [20]byte
	return s == string(strconv.AppendInt(buf[:0], int64(n), 10))
}

func newParseError(subject, problem string, cause error) error {
	return &ParseError{Subject: clip(subject), Problem: problem, Cause: cause}
}
