// Package subjects maps sessions to names and back: the subject of a session's log, and the stream that holds it.
//
//	tr.chunks.<p>.<tenant>.<root>.<session>   stream TR_CHUNKS_<p>
//
// A Layout has the functions; its zero value is the default:
//
//	subject, err := layout.Subject(session)
//	session, err := layout.Parse(msg.Subject)
//
// The package checks names that users and other systems choose, because the server does not: it stores "*" and ">" as ordinary tokens, so a session of
// that name would read all other sessions, and it closes the connection permanently over one subject that is too long. CheckToken defines the allowed
// names, and CheckID the ids of sessions, which subjects have escaped.
package subjects
