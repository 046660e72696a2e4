package holdfast

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/sharing"
)

// dialLimit is how long one connection may take to be made, and how long Open tries to make the first one.
const dialLimit = 2 * time.Second

// 2^ringScale is the size of the client's ring of calls in flight, which has room for all calls that a session lets
// through. A caller without a place in the ring would be stuck, whatever its ctx says.
const ringScale = 10

// leastPool is how many connections besides those for calls a session may need at one server: one for messages and the
// next one that replaces it, one that waits for replicas, and one on which Close gives thousands of holds back. A call
// that finds none would wait for as long as the session lasts.
const leastPool = 4

// buffer is how many bytes at most a connection writes or reads at once. The client's default of half a mebibyte would
// be most of the memory that a session needs.
const buffer = 64 << 10

// connect makes the client. If an attempt times out it tries again, as long as patience lasts.
func connect(opt rueidis.ClientOption, patience time.Duration) (rueidis.Client, error) {
	for began := time.Now(); ; {
		client, err := rueidis.NewClient(opt)
		if err == nil {
			return client, nil
		}
		if client != nil {
			client.Close()
		}
		slow, ok := errors.AsType[net.Error](err)
		if !ok || !slow.Timeout() {
			return nil, err
		}
		if time.Since(began) >= patience {
			return nil, fmt.Errorf("no answer from %s within %v: %w", strings.Join(opt.InitAddress, ", "), patience, err)
		}
	}
}

// setUp sets a client's options as the guarantees need them. l learns of connections.
//
// A silent connection is noticed in two ways. A direct call to it ends after ConnWriteTimeout. Without one, a
// connection that has received nothing for one to two times KeepAlive is sent a PING, and ends if there is no answer
// for as long again.
func setUp(opt *rueidis.ClientOption, lease time.Duration, l *links) error {
	switch {
	case opt.ConnLifetime != 0:
		return errors.New("ClientOption.ConnLifetime is set, must be 0: with it a script can run twice")
	case opt.DialCtxFn == nil && opt.DialFn == nil &&
		slices.ContainsFunc(opt.InitAddress, func(addr string) bool { return strings.Contains(addr, "://") }):
		return errors.New("ClientOption.InitAddress has a URL, must have host:port; rueidis.ParseURL reads URLs")
	case opt.ReplicaOnly:
		return errors.New("ClientOption.ReplicaOnly is set: locks live on masters")
	case opt.SendToReplicas != nil:
		return errors.New("ClientOption.SendToReplicas is set: locks live on masters")
	case opt.DisableAutoPipelining:
		return errors.New("ClientOption.DisableAutoPipelining is set: a session uses one connection per server")
	case opt.RingScaleEachConn > 0 && opt.RingScaleEachConn < ringScale:
		return fmt.Errorf("ClientOption.RingScaleEachConn is %d, must be at least %d, or 0: "+
			"a session has a thousand calls in flight",
			opt.RingScaleEachConn, ringScale)
	}
	opt.PipelineMultiplex = -1 // one connection, on which replies come in the order of the calls
	opt.DisableCache = true    // nothing is read twice
	if opt.BlockingPoolSize > 0 {
		opt.BlockingPoolSize = max(opt.BlockingPoolSize, leastPool)
	}
	opt.ReadBufferEachConn = cmp.Or(opt.ReadBufferEachConn, buffer)
	opt.WriteBufferEachConn = cmp.Or(opt.WriteBufferEachConn, buffer)
	for _, dialer := range []*net.Dialer{&opt.Dialer, &opt.Sentinel.Dialer} {
		dialer.KeepAlive = atMost(cmp.Or(dialer.KeepAlive, rueidis.DefaultTCPKeepAlive), lease/12)
		dialer.Timeout = atMost(dialer.Timeout, min(dialLimit, lease/6))
	}
	unset := 5 * max(rueidis.DefaultTCPKeepAlive, opt.Dialer.KeepAlive) // half of what the client would make of it
	opt.ConnWriteTimeout = atMost(cmp.Or(opt.ConnWriteTimeout, unset), lease/6)
	if opt.Sentinel.MasterSet != "" {
		l.pace.mark(&opt.Sentinel.Dialer)
		opt.Sentinel.TopologyRefreshInterval = cmp.Or(opt.Sentinel.TopologyRefreshInterval, mostPace)
	}
	if opt.ClusterOption.MaxMovedRedirections == 0 {
		opt.ClusterOption.MaxMovedRedirections = 8
	}
	if opt.ClusterOption.ShardsRefreshInterval == 0 {
		opt.ClusterOption.ShardsRefreshInterval = 10 * time.Second
	}
	opt.DialCtxFn = l.dialer(opt)
	if ask := opt.AuthCredentialsFn; ask != nil {
		opt.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			c, err := ask(of)
			if !c.RefreshAfter.IsZero() {
				l.renews.Store(true)
			}
			if err != nil {
				err = session.LoginFailed(err)
			}
			return c, err
		}
	}
	return nil
}

// greetable reports whether there is time to greet a server before ctx ends. If there is none, the client would send
// QUIT instead and wait a second for the answer.
func greetable(ctx context.Context) bool {
	const least = 5 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < least {
		<-ctx.Done()
	}
	return ctx.Err() == nil
}

// atMost is d if it is set and not above the limit, else the limit.
func atMost(d, limit time.Duration) time.Duration {
	if d <= 0 || d > limit {
		return limit
	}
	return d
}

type dialer = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialFunc returns the function with which the client would connect.
func dialFunc(opt *rueidis.ClientOption) dialer {
	if opt.DialCtxFn != nil {
		return opt.DialCtxFn
	}
	if fn := opt.DialFn; fn != nil {
		return func(_ context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
			return fn(addr, d, c)
		}
	}
	return func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		if c != nil {
			return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", addr)
		}
		return d.DialContext(ctx, "tcp", addr)
	}
}

// links are the connections of a client.
type links struct {
	session atomic.Pointer[session.Session] // nil until it is there
	directs sharing.Directs
	renews  atomic.Bool // connections may log in again
	pace    pace        // of those to sentinels
	stand   sync.Map    // the addresses to which a connection for calls was made, which has not ended since

	mu    sync.Mutex         // guards the rest
	open  map[*link]struct{} // all connections that have not ended
	ended bool
}

// begin counts a connection among the open ones, or reports that the client is closed.
func (l *links) begin(of *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*link]struct{}{}
	}
	l.open[of] = struct{}{}
	return !l.ended
}

// end closes what the closed client has left open: it forgets a connection that is being made when it gives the server
// up, as behind Sentinel.
func (l *links) end() {
	l.pace.end()
	l.mu.Lock()
	l.ended = true
	left := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, one := range left {
		_ = one.Close()
	}
}

// tell informs the session that a connection begins or ends, perhaps the one for calls to the server.
//
//nolint:revive // no control: it is so
func (l *links) tell(calls bool) {
	s := l.session.Load()
	if s == nil {
		return
	}
	s.Changing()
	if calls {
		s.Changed()
	}
}

// haveEnded reports whether a server has ended a direct connection: nobody reads it until the next call.
func (l *links) haveEnded() (ended bool) {
	l.stand.Range(func(_, one any) bool {
		made := one.(*link)
		ended = !made.direct.Ended() && readable(socket(made.Conn))
		return !ended
	})
	return ended
}

// underWay returns how many calls of the session are.
func (l *links) underWay() int64 {
	if s := l.session.Load(); s != nil {
		return s.Runner().UnderWay()
	}
	return 0
}

// forMessages reports whether a connection to an address that is made under ctx is for messages, or for what blocks
// it: calls go on over another one, if need be over the next.
func (l *links) forMessages(ctx context.Context, addr string) bool {
	_, stands := l.stand.Load(addr)
	s := l.session.Load()
	return stands || sharing.IsApart(ctx) || s != nil && s.Linking(addr) && !sharing.Calls(ctx)
}

// dialer returns a dialFunc that informs the session when it begins to dial, and when a connection is made or ends. It
// says nothing of one that is not for calls.
func (l *links) dialer(opt *rueidis.ClientOption) dialer {
	dial, delays := dialFunc(opt), opt.DisableTCPNoDelay
	return func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		ctx = sharing.Dialling(ctx)
		if err := l.pace.await(ctx, addr, d); err != nil {
			return nil, err
		}
		second := l.forMessages(ctx, addr)
		if !second {
			l.tell(true)
		}
		conn, err := dial(ctx, addr, d, c)
		if err != nil {
			return nil, err
		}
		if !greetable(ctx) {
			_ = conn.Close()
			return nil, context.Cause(ctx)
		}
		if delays {
			delay(conn) // the client could not: it looks at the type of the connection
		}
		made := newLink(conn, l, addr)
		if made.second = second; !second {
			l.stand.Store(addr, made)
		}
		if second || l.pace.marked(d) { // no call goes over it; with the old protocol, it would be direct for ever
			made.direct.End()
		}
		if !l.begin(made) {
			_ = made.Close()
			return nil, net.ErrClosed
		}
		if s := l.session.Load(); s != nil && !second {
			s.Connected()
		}
		return made, nil
	}
}

// socket is what is below TLS.
func socket(conn net.Conn) net.Conn {
	if c, ok := conn.(*tls.Conn); ok {
		return c.NetConn()
	}
	return conn
}

// delay makes the system gather small writes.
func delay(conn net.Conn) {
	if c, ok := socket(conn).(*net.TCPConn); ok {
		_ = c.SetNoDelay(false) // if it fails, connections are merely slower
	}
}
