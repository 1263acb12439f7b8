package pods

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Service connects to the pods that a service selects.
type Service struct {
	cluster *Cluster
	object  *serviceObject
	turn    atomic.Uint32
}

// Service returns the service with this name.
func (c *Cluster) Service(tb testing.TB, name string) *Service {
	tb.Helper()
	for _, object := range c.objects.services {
		if object.Metadata.Name == name {
			if n := len(object.Spec.Ports); n != 1 {
				tb.Fatalf("service %s has %d ports, want 1", name, n)
			}
			return &Service{cluster: c, object: object}
		}
	}
	tb.Fatalf("no service %q", name)
	return nil
}

// ErrNoEndpoint is the error of a service without a pod that is ready.
var ErrNoEndpoint = errors.New("no pod is ready")

// Dial connects to one of the pods, in turn.
func (s *Service) Dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: time.Second}
	addresses := s.endpoints()
	turn, err := int(s.turn.Add(1)), ErrNoEndpoint
	for i := range addresses { // a proxy connects to the next one if a pod refuses
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, "tcp", addresses[(turn+i)%len(addresses)]); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// endpoints returns the addresses of the pods that are ready and do not terminate, as the proxies of the service know them.
func (s *Service) endpoints() (addresses []string) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for _, p := range s.cluster.pods {
		if p.routed.Load() && (selector{s.object.Spec.Selector}).matches(p.template.Metadata.Labels) {
			port := p.container().port(s.object.Spec.Ports[0].TargetPort)
			addresses = append(addresses, net.JoinHostPort(p.ip, strconv.Itoa(port)))
		}
	}
	return addresses
}
