package main

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/sseedge/agentserver"
)

// newAgentServer lets agents elsewhere delegate to ours. It is nil where they may
// not.
func (f *front) newAgentServer(snapshots pages) (*agentserver.Server, error) {
	cfg := f.b.cfg
	if !cfg.AgentServer {
		return nil, nil //nolint:nilnil // see above
	}
	if f.chats == nil {
		return nil, usageError{errors.New("agent-server is on and chat-agent is empty: want the agents that may be started")}
	}
	layout := cfg.layout()
	queue, err := commands.New(f.b.js, commands.Config{Layout: layout, Log: f.b.log})
	if err != nil {
		return nil, err
	}
	box, err := inbox.New(f.b.js, inbox.Config{Layout: layout})
	if err != nil {
		return nil, err
	}
	server, err := agentserver.New(agentserver.Config{
		Snapshots: snapshots.reader, Commands: queue, Inbox: box, Live: agentserver.Hub{Hub: f.hub},
		Events: f.edge, Answers: f.chats, Bodies: f.bodies, Room: f.edge.Room(),
		AgentTypes: cfg.ChatAgents, Prefix: cfg.AgentServerPath, Tenant: cfg.Tenant, Origins: cfg.CORSOrigins, Log: f.b.log,
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("agent-server: %w", err)}
	}
	f.b.log.Warn("agents elsewhere may delegate to ours, and nobody is asked for credentials", "path", cfg.AgentServerPath)
	return server, nil
}
