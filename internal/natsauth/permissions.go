package natsauth

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// any1 is the wildcard of one token.
const any1 = "*"

// Of returns the permissions of a role. The lists are sorted. The error names the invalid field of cfg.
func Of(role Role, cfg Config) (jwt.Permissions, error) {
	if err := cfg.validate(role); err != nil {
		return jwt.Permissions{}, err
	}
	streams, err := topology.Streams(topology.Config{Layout: cfg.Layout})
	if err != nil {
		return jwt.Permissions{}, err
	}
	g := &grants{Config: cfg, layout: cfg.Layout, apis: []string{"$JS.API."}}
	if cfg.Domain != "" {
		g.apis = append(g.apis, "$JS."+cfg.Domain+".API.")
	}
	for p := range cfg.Layout.PartitionCount() {
		g.logs = append(g.logs, cfg.Layout.Stream(p))
		g.snapshots = append(g.snapshots, names.Layout(cfg.Layout).SnapshotsOf(p))
	}
	g.subscribe(cmp.Or(cfg.InboxPrefix, InboxPrefix(role)) + ".>")
	g.publish(UserInfoSubject)
	g.verify(streams)
	switch role {
	case Setup:
		for _, s := range streams {
			g.call("STREAM.CREATE." + s.Name)
		}
	case Edge:
		g.edge()
	case Projector:
		g.projector()
	case Worker:
		g.worker()
	case Analytics:
		g.analytics()
	case Operator:
		g.operator()
	}
	if role != Setup && role != Analytics {
		g.probe(streams)
	}
	return g.permissions(), nil
}

// PurgedStreams returns the streams that a role may purge. A process asks only about these whether the server has failed to write them, because it asks by
// a purge of nothing.
func PurgedStreams(role Role, cfg Config) ([]string, error) {
	p, err := Of(role, cfg)
	if err != nil {
		return nil, err
	}
	streams, err := topology.Streams(topology.Config{Layout: cfg.Layout})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range streams {
		if s.DenyPurge {
			continue
		}
		purge := "STREAM.PURGE." + s.Name
		if slices.ContainsFunc(p.Pub.Allow, func(allowed string) bool {
			return strings.HasSuffix(allowed, purge) || strings.HasSuffix(allowed, ".API.>")
		}) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// grants collects the permissions of a user.
type grants struct {
	Config

	layout subjects.Layout
	apis   []string // prefixes of requests, with the dot. A server of the domain compares permissions with the first form, into which it maps the second one; a leaf node with the second one
	logs   []string // the streams of the log

	snapshots []string // the buckets of snapshots

	pub, deny, sub []string
}

func (g *grants) permissions() jwt.Permissions {
	unique := func(list []string) jwt.StringList { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return jwt.Permissions{
		Pub: jwt.Permission{Allow: unique(g.pub), Deny: unique(g.deny)},
		Sub: jwt.Permission{Allow: unique(g.sub)},
	}
}

func (g *grants) publish(subjects ...string)   { g.pub = append(g.pub, subjects...) }
func (g *grants) subscribe(subjects ...string) { g.sub = append(g.sub, subjects...) }

// call allows requests of the API.
func (g *grants) call(calls ...string) {
	for _, api := range g.apis {
		for _, c := range calls {
			g.publish(api + c)
		}
	}
}

// store allows messages for a subject of a bucket. With a domain, that of a key-value bucket has two forms too, see jsclient.Client.PublishSubject.
func (g *grants) store(subjects ...string) {
	g.publish(subjects...)
	for _, s := range subjects {
		if g.Domain != "" && strings.HasPrefix(s, "$KV.") {
			g.publish("$JS." + g.Domain + ".API." + s)
		}
	}
}

// ack allows the acknowledgement of deliveries, of both forms of the subject.
func (g *grants) ack(stream, consumer string) {
	g.publish("$JS.ACK."+stream+"."+consumer+".>", "$JS.ACK.*.*."+stream+"."+consumer+".>")
}

// verify allows the comparison of the streams, which each role does when it starts.
func (g *grants) verify(streams []jetstream.StreamConfig) {
	g.call("INFO", "STREAM.NAMES")
	for _, s := range streams {
		g.call("STREAM.INFO." + s.Name)
	}
}

// probe allows the check whether messages are stored: a message that the server always refuses, on a subject that no session has.
func (g *grants) probe(streams []jetstream.StreamConfig) {
	for _, s := range streams {
		g.store(jsclient.ProbeSubject(s.Subjects[0]))
	}
}

// readMessages allows requests for single messages of a stream, whose body has the subject or the sequence.
func (g *grants) readMessages(streams ...string) {
	for _, s := range streams {
		g.call("STREAM.MSG.GET."+s, "DIRECT.GET."+s)
	}
}

// consume allows ephemeral consumers with one filter, and none with the name of a consumer that the projectors share.
func (g *grants) consume(stream string, filters ...string) {
	for _, filter := range filters {
		g.call("CONSUMER.CREATE." + stream + ".*." + filter)
	}
	g.call("CONSUMER.MSG.NEXT."+stream+".*", "CONSUMER.DELETE."+stream+".*")
}

// protect denies the use of the consumer of the projectors: a client that takes its messages or deletes it stops the snapshots of all sessions.
func (g *grants) protect() {
	for _, log := range g.logs {
		name := log + "." + jssnapshots.Durable
		for _, call := range []string{
			"CONSUMER.CREATE." + name, "CONSUMER.CREATE." + name + ".>", "CONSUMER.MSG.NEXT." + name, "CONSUMER.DELETE." + name,
			"CONSUMER.RESET." + name, "CONSUMER.UNPIN." + name,
		} {
			for _, api := range g.apis {
				g.deny = append(g.deny, api+call)
			}
		}
		g.deny = append(g.deny, "$JS.ACK."+name+".>", "$JS.ACK.*.*."+name+".>")
	}
}

// readLog allows everything that readers of sessions do.
func (g *grants) readLog() {
	g.readMessages(g.logs...)
	for p, log := range g.logs {
		g.consume(log, names.Layout(g.layout).AllFilter(p)) // also matches filters of one tree and of one session
	}
}

// writeLog allows records of sessions.
func (g *grants) writeLog() {
	for p := range g.logs {
		g.publish(names.Layout(g.layout).AllFilter(p))
	}
}

// readSnapshots allows everything that readers of snapshots do, including large values.
func (g *grants) readSnapshots() {
	for _, bucket := range g.snapshots {
		g.readMessages("KV_" + bucket)
		g.call("DIRECT.GET.KV_" + bucket + "." + snapshotKeys(bucket))
	}
	g.readMessages(jssnapshots.ObjectStream(g.layout))
}

// snapshotKeys returns the subjects of the keys of sessions in a bucket of snapshots.
func snapshotKeys(bucket string) string {
	return "$KV." + bucket + ".*.*.>"
}

// noteForks permits the keys by which the forks of a session are found, and no other key of snapshots.
func (g *grants) noteForks() {
	for _, bucket := range g.snapshots {
		g.store("$KV." + bucket + ".fork.*.*.*")
	}
}

// listSnapshots allows lists of sessions.
func (g *grants) listSnapshots() {
	for _, bucket := range g.snapshots {
		g.consume("KV_"+bucket, snapshotKeys(bucket))
	}
}

// writeValues allows values that are too large for a record.
func (g *grants) writeValues() { g.store(names.Layout(g.layout).TenantValues(any1)) }

// command allows commands, and the question whether there is one.
func (g *grants) command() {
	g.publish(names.Layout(g.layout).AllCommands())
	g.readMessages(names.Layout(g.layout).CommandStream())
}

// inbox allows answers and stop requests.
func (g *grants) inbox() {
	g.store("$KV." + names.Layout(g.layout).Inbox() + ".*.>")
	g.readMessages("KV_" + names.Layout(g.layout).Inbox())
}

// hints allows the notifications of new answers and stop requests.
func (g *grants) hints() {
	g.subscribe(names.Layout(g.layout).AllInboxHints())
}

// reap allows what ends a run without a worker: its records, stop requests for its sub-agents, and the answer for its parent.
func (g *grants) reap() {
	g.writeLog()
	g.inbox()
	g.hints()
}

// deadlines allows new deadlines. A deadline is moved to its due subject by the server.
func (g *grants) deadlines() {
	set, _ := names.Layout(g.layout).DeadlineFilters()
	g.publish(set)
}

// record allows events of the audit log, and no reading of them.
func (g *grants) record() {
	g.publish(strings.Replace(names.Layout(g.layout).AllAudit(), "*.*.*", "tenant.*.*", 1))
}

func (g *grants) edge() {
	g.record()
	g.publish(strings.Replace(names.Layout(g.layout).AllAudit(), "*.*.*", "none.none.*", 1)) // refused accesses of clients that are not authenticated
	g.readLog()
	for _, log := range g.logs { // the feed has no filter
		g.call("CONSUMER.CREATE." + log + ".*")
	}
	g.followRoots()
	g.protect()
	g.readSnapshots()
	g.listSnapshots()
	g.noteForks()
	g.command()
	g.reap()
	g.writeValues()
	g.credentials()
	if g.AllowDelete {
		g.erase()
	}
	if g.AllowIngest {
		g.writeLog()
		for _, log := range g.logs { // the removal of the chunks of a cleanup
			g.call("STREAM.MSG.DELETE." + log)
		}
	}
}

// followRoots allows the republished messages of the log, and the news that a stream has another leader.
func (g *grants) followRoots() {
	for p, log := range g.logs {
		g.subscribe(names.Layout(g.layout).AllLive(p), jsinterest.LeaderElected(log))
	}
}

// credentials allows revocations and tickets, and following the revocations.
func (g *grants) credentials() {
	bucket := names.Layout(g.layout).Credentials()
	prefix := "$KV." + bucket + "."
	g.consume("KV_"+bucket, prefix+names.RevocationKeys())
	g.readMessages("KV_" + bucket)
	g.store(prefix+names.RevocationKeys(), prefix+names.TicketKeys())
}

// erase allows the deletion of sessions. The filter of a purge is in its body, so a user that may delete one session may delete all.
func (g *grants) erase() {
	l := g.layout
	for _, s := range append([]string{jssnapshots.ObjectStream(l), "KV_" + names.Layout(l).Inbox(), names.Layout(l).DeadLetterStream()}, g.logs...) {
		g.call("STREAM.PURGE." + s)
	}
	for _, bucket := range g.snapshots {
		g.call("STREAM.PURGE.KV_" + bucket)
		g.store(snapshotKeys(bucket))
	}
	g.readMessages(names.Layout(l).CommandStream(), names.Layout(l).DeadlineStream())
	g.call("STREAM.MSG.DELETE."+names.Layout(l).CommandStream(), "STREAM.MSG.DELETE."+names.Layout(l).DeadlineStream())
	g.writeLog()
}

func (g *grants) projector() {
	l := g.layout
	g.readLog()
	for _, log := range g.logs {
		name := log + "." + jssnapshots.Durable
		g.call("CONSUMER.INFO."+name, "CONSUMER.RESET."+name, "CONSUMER.UNPIN."+name)
		g.ack(log, jssnapshots.Durable)
	}
	g.readSnapshots()
	g.listSnapshots()
	for _, bucket := range g.snapshots {
		g.consume("KV_"+bucket, "$KV."+bucket+"."+names.SnapshotHeadKeys())
		g.store("$KV." + bucket + ".>")
	}
	g.store("$O."+names.Layout(l).Objects()+".C.>", "$O."+names.Layout(l).Objects()+".M.>")
	g.publish(names.Layout(l).AllDeadLetters()...)
	g.readMessages(names.Layout(l).DeadLetterStream())
	g.command()
	g.reap()
	g.erase()
}

func (g *grants) worker() {
	l := g.layout
	g.record()
	g.readLog()
	g.protect()
	g.writeLog()
	g.writeValues()
	for _, log := range g.logs { // the removal of an unfinished step
		g.call("STREAM.MSG.DELETE." + log)
	}
	g.readSnapshots()
	g.noteForks()
	g.command()
	g.deadlines()
	g.inbox()
	g.hints()
	g.usage()
	types := g.AgentTypes
	if len(types) == 0 {
		types = []string{any1}
	}
	for _, agentType := range types {
		durable := any1
		if agentType != any1 {
			durable = jscontrol.Durable(agentType)
		}
		_, due := names.Layout(l).DeadlineFilters()
		for stream, filter := range map[string]string{names.Layout(l).CommandStream(): names.Layout(l).AllCommands(), names.Layout(l).DeadlineStream(): due} {
			filter = strings.Replace(filter, "*.*", any1+"."+agentType, 1)
			g.call("CONSUMER.CREATE."+stream+"."+durable+"."+filter, "CONSUMER.MSG.NEXT."+stream+"."+durable,
				"CONSUMER.INFO."+stream+"."+durable) // whether other workers wait for commands
			g.ack(stream, durable)
		}
	}
}

// usage allows adding to the used tokens, and reading them.
func (g *grants) usage() {
	g.store("$KV." + names.Layout(g.layout).Usage() + ".*.*")
	g.readMessages("KV_" + names.Layout(g.layout).Usage())
}

// analytics allows reading the log, with durable consumers of any name but that of the projectors.
func (g *grants) analytics() {
	g.readLog()
	for _, log := range g.logs {
		g.call("CONSUMER.INFO."+log+".*", "CONSUMER.RESET."+log+".*", "CONSUMER.UNPIN."+log+".*")
		g.ack(log, any1)
	}
	g.protect()
	g.readSnapshots()
}

// operator allows everything in the account that a command of Tailrace can do, also with other buckets.
func (g *grants) operator() {
	l := g.layout
	g.call(">")
	g.publish("$JS.ACK.>", "$JS.SNAPSHOT.>") // the latter for backups and restores
	g.store("$KV.>", "$O.>")
	g.publish(names.Layout(l).AllChunks(), names.Layout(l).AllCommands(), names.Layout(l).AllDeadlines(), names.Layout(l).AllAudit())
	g.publish(names.Layout(l).AllDeadLetters()...)
	g.subscribe(names.Layout(l).AllInboxHints())
}
