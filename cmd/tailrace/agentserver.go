package main

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/sseedge/agentserver"
)

// newAgentServer serves the HTTP API through which other systems start agents. It
// returns nil if the API is disabled.
func (f *httpServer) newAgentServer() (*agentserver.Server, error) {
	cfg := f.b.cfg
	if !cfg.AgentServer {
		return nil, nil //nolint:nilnil // see above
	}
	if f.chats == nil {
		return nil, usageError{errors.New("chat-agent is empty, want the agents that agent-server may start")}
	}
	server, err := agentserver.New(agentserver.Config{
		Conversation: f.chats.Conversation(), StartWaiter: agentserver.HubWaiter{HubWaiter: f.hub},
		EventsHandler: f.edge, Bodies: f.bodies, Streams: f.edge.StreamLimiter(),
		Prefix: cfg.AgentServerPath, Tenant: cfg.Tenant, Origins: cfg.CORSOrigins, Log: f.b.log,
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("agent-server: %w", err)}
	}
	f.b.log.Warn("agent server enabled without authentication", "path", cfg.AgentServerPath)
	return server, nil
}
