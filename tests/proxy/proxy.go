// Package proxy is a TCP proxy that understands the Redis protocol and makes connections fail on purpose.
//
// Rules pick commands by name and arguments and lose their replies, reset their connection, hold them back, delay
// them or answer for the server. Apart from rules, one connection or all can be stalled or cut, and new ones refused.
// Each reply is matched to its command, also among pipelined commands and pushes, in RESP2 and RESP3. A replica may be
// connected through a proxy, too: what its master sends after PSYNC passes as it is, and can be stalled or cut.
//
// What a client has sent is delivered even if the client has gone meanwhile, as a network does that has already
// accepted the bytes. A proxy takes one server's address; a client of a cluster or of sentinels needs one for each,
// and a dialer that maps their addresses.
package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Proxy stands between clients and one server. Its methods may be called from any goroutine.
type Proxy struct {
	t      testing.TB
	addr   string
	ctx    context.Context // ends when the proxy closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the accept loop and all connections

	mu       sync.Mutex
	server   string
	listener net.Listener // nil while new connections are refused
	stallNew bool
	closed   bool
	accepted int
	losing   bool // messages
	lost     int
	conns    []*Conn
	rules    []*Rule
}

// Start starts a proxy in front of a server, given by host and port. It forwards everything as it is until it is told
// otherwise, and ends with the test.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{t: t, ctx: ctx, cancel: cancel, server: server}
	t.Cleanup(p.close)
	const attempts = 3 // a port is free only until somebody else takes it
	var err error
	for range attempts {
		p.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(redistest.FreePort(t)))
		if err = p.listen(); err == nil {
			addrs.Store(p.addr, true)
			return p
		}
	}
	t.Fatal(err)
	return nil
}

// addrs are those of the proxies that have not ended.
var addrs sync.Map

// Is reports whether an address is a proxy's.
func Is(addr string) bool {
	_, is := addrs.Load(addr)
	return is
}

// Addr is where clients connect, the same for the proxy's whole life.
func (p *Proxy) Addr() string { return p.addr }

// On sets a rule: the action is done to the commands that match, on the nth of them or every time. If several rules
// would act on a command, the one set first does; all count it.
func (p *Proxy) On(m Match, a Action, n Times) *Rule {
	r := newRule(p, m, a, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(slices.Clip(p.rules), r)
	return r
}

// StallAll stalls the connections that are open now, in both directions; new ones work, but see StallNew.
func (p *Proxy) StallAll() {
	for _, c := range p.Conns() {
		c.Stall(Both)
	}
}

// StallNew decides whether connections from now on are accepted and then stalled, as behind a network that loses
// every packet.
func (p *Proxy) StallNew(stall bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallNew = stall
}

// Silence stalls the connections that are open now and those to come, until ResumeAll.
func (p *Proxy) Silence() {
	p.StallNew(true)
	p.StallAll()
}

// LoseMessages decides whether published messages get lost from now on. Subscriptions are confirmed as ever.
func (p *Proxy) LoseMessages(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = lose
}

// LostMessages counts the messages that got lost.
func (p *Proxy) LostMessages() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// loses reports whether a frame from the server is a message that gets lost.
func (p *Proxy) loses(f frame) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	loses := p.losing && (f.kind == '>' || f.kind == '*') && len(f.items) > 0 && isMessage(f.items[0])
	if loses {
		p.lost++
	}
	return loses
}

// ResumeAll resumes every stalled connection, and lets new ones work.
func (p *Proxy) ResumeAll() {
	p.StallNew(false)
	for _, c := range p.Conns() {
		c.Resume()
	}
}

// CutAll resets the connections that are open now.
func (p *Proxy) CutAll() {
	for _, c := range p.Conns() {
		c.Cut()
	}
}

// RefuseNew decides whether new connections are refused, as by a machine on which nobody listens.
func (p *Proxy) RefuseNew(refuse bool) {
	if !refuse {
		if err := p.listen(); err != nil {
			p.t.Errorf("proxy: %v", err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// SetServer sends new connections to another server, as a virtual address that moves in a failover.
func (p *Proxy) SetServer(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = addr
}

// Conns are the open connections, oldest first.
func (p *Proxy) Conns() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

// Accepted counts the connections that were ever made to the server through the proxy.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// listen accepts connections from now on; it does nothing if they already are.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	// A process that is being started has a copy of the socket that was closed, until it executes its program.
	for end := time.Now().Add(5 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		l, err = net.Listen("tcp", p.addr)
	}
	if err != nil {
		return err
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.serve(c.(*net.TCPConn), l) })
		}
	})
	return nil
}

// serve connects one client, which came to l, to the server and stays until the connection has ended.
func (p *Proxy) serve(client *net.TCPConn, l net.Listener) {
	p.mu.Lock()
	addr := p.server
	p.mu.Unlock()
	var d net.Dialer
	server, err := d.DialContext(p.ctx, "tcp", addr)
	if err != nil {
		_ = client.SetLinger(0) // nobody there: the client gets a reset
		_ = client.Close()
		return
	}
	c := newConn(p, client, server.(*net.TCPConn))
	defer c.end(false)
	if p.add(c, l) {
		defer p.forget(c)
		c.run()
	}
}

// add puts a connection that came to l on the list; false if the proxy is closed, or refuses new ones by now.
func (p *Proxy) add(c *Conn, l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != l {
		return false
	}
	if p.stallNew {
		c.Stall(Both)
	}
	p.accepted++
	p.conns = append(p.conns, c)
	return true
}

func (p *Proxy) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(o *Conn) bool { return o == c })
}

func (p *Proxy) remove(r *Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = slices.DeleteFunc(slices.Clone(p.rules), func(o *Rule) bool { return o == r })
}

// decide asks the rules what to do with a command that has come.
func (p *Proxy) decide(f frame, c *Conn) *request {
	r := &request{frame: f, released: passed}
	if len(f.items) == 0 {
		return r
	}
	p.mu.Lock()
	rules := p.rules // never changed in place
	p.mu.Unlock()
	for _, rule := range rules {
		if acts := rule.consider(f.items, c); acts && r.rule == nil {
			r.rule, r.action = rule, rule.action
		}
	}
	switch r.action.kind {
	case stall:
		r.released = r.rule.gate.ticket() // before the test can know and release
		r.rule.noteFired()
	case delay:
		r.released = after(r.action.delay)
	}
	return r
}

// close ends everything and waits for it.
func (p *Proxy) close() {
	p.cancel()
	addrs.Delete(p.addr)
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	for _, c := range p.Conns() {
		c.end(false)
	}
	p.wg.Wait()
}
