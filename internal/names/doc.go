// Package names maps sessions to names and back: the subject of a session's log, the stream that holds it, the keys of its snapshot.
//
//	tr.chunks.<p>.<tenant>.<root>.<session>      the log            stream TR_CHUNKS_<p>
//	tr.commands.<tenant>.<agentType>.<session>   work for workers   stream TR_COMMANDS
//	tr.deadlines.<set|due>.<tenant>.<agentType>.<session>.<run>.<ms>   stream TR_DEADLINES
//	<tenant>.<root>.<session>.<run>.answer.<call>  an answer to a run  bucket TR_INBOX
//	<tenant>.<root>.<session>.<run>.stop           a stop request      bucket TR_INBOX
//	<tenant>.<root>.<session>.<run>.queued         a waiting message   bucket TR_INBOX
//	tr.inbox.<key of the inbox>                  a hint about it    no stream
//	revoked.<tenant>.token.<id>                  a revoked token    bucket TR_CREDENTIALS
//	revoked.<tenant>.subject.<subject>           revoked tokens of a subject  bucket TR_CREDENTIALS
//	ticket.<id>                                  a one-time ticket  bucket TR_CREDENTIALS
//	<tenant>.<day>                               tokens used        bucket TR_USAGE
//	tr.deadletters.<tenant>.<root>.<session>.<id> a dead letter     stream TR_DEADLETTERS
//	h.<tenant>.<root>.<session>                  snapshot head      bucket TR_SNAPSHOTS
//	m.<tenant>.<root>.<session>.p<n>             finished messages  bucket TR_SNAPSHOTS
//	o.<tenant>.<root>.<session>.<object>         object reference   bucket TR_SNAPSHOTS
//	fork.<tenant>.<root>.<fork>                  fork of a session  bucket TR_SNAPSHOTS
//	<object>                                     a large value      bucket TR_OBJECTS
//
// A Layout has the functions; its zero value is the default:
//
//	subject, err := layout.Subject(session)   // once per run; publish there
//	session, err := layout.Parse(msg.Subject) // once per message
//
// The package checks names that users and other systems choose, because the server does not: it stores "*" and ">" as ordinary tokens, so a session of
// that name would read all other sessions, and it closes the connection permanently over one subject that is too long. CheckToken defines the allowed
// names, and CheckID the ids of sessions, which subjects and keys have escaped.
package names
