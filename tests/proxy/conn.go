package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// Direction is one way through a connection, or Both.
type Direction int

const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Conn is one client's connection through the proxy.
type Conn struct {
	proxy          *Proxy
	client, server *net.TCPConn
	accepted       *queue       // from the client, not yet forwarded
	replies        *frameReader // from the server
	answers        *answers
	toServer       *gate
	toClient       *gate

	gone chan struct{} // closed when the client has closed its side
	done chan struct{} // closed when the connection has ended on both sides
	once sync.Once     // of end
}

func newConn(p *Proxy, client, server *net.TCPConn) *Conn {
	return &Conn{
		proxy: p, client: client, server: server,
		accepted: newQueue(), replies: newFrameReader(server), answers: newAnswers(),
		toServer: newGate(), toClient: newGate(),
		gone: make(chan struct{}), done: make(chan struct{}),
	}
}

// Stall holds back everything that goes in the direction, until Resume; both sides stay connected, and the proxy
// goes on accepting what they send. The end of either side is held back as well.
func (c *Conn) Stall(d Direction) {
	if d&ToServer != 0 {
		c.toServer.shut()
	}
	if d&ToClient != 0 {
		c.toClient.shut()
	}
}

// Resume delivers what Stall has held back, to the server even if the client has gone.
func (c *Conn) Resume() {
	c.toServer.open()
	c.toClient.open()
}

// Cut resets the client's side and closes the server's. Whatever the proxy holds is lost.
func (c *Conn) Cut() { c.end(true) }

func (c *Conn) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// end closes both sides, the client's with a reset if asked.
func (c *Conn) end(reset bool) {
	c.once.Do(func() {
		if reset {
			_ = c.client.SetLinger(0) // closing then sends RST; fails only if it is closed already
		}
		_ = c.client.Close()
		_ = c.server.Close()
		close(c.done)
	})
}

// run serves the connection until it has ended.
func (c *Conn) run() {
	var wg sync.WaitGroup
	wg.Go(c.accept)
	wg.Go(c.forward)
	c.deliver()
	wg.Wait()
}

// accept reads from the client for as long as it sends, whatever is stalled: a client that closes must be noticed,
// and what it has sent must be there to be delivered late.
func (c *Conn) accept() {
	frames := newFrameReader(c.client)
	for {
		f, err := frames.request()
		if err != nil {
			break
		}
		r := c.proxy.decide(f, c)
		c.accepted.push(r)
		if r.action.last() {
			_, _ = io.Copy(io.Discard, c.client)
			break
		}
	}
	close(c.gone)
	c.accepted.close()
}

// forward sends what was accepted to the server, and closes that side after the last of it.
func (c *Conn) forward() {
	for {
		r, ok := c.accepted.pop(c.done)
		if !ok {
			break
		}
		if !c.pass(r.released, nil) || !c.pass(c.toServer.ticket(), nil) {
			return
		}
		raw := r.raw
		switch r.action.kind {
		case resetBefore:
			r.rule.noteFired() // before the client can know, here and below
			c.end(true)
			return
		case answer:
			raw = []byte("*1\r\n$4\r\nPING\r\n")
		case pass, delay:
			if r.rule != nil {
				r.rule.noteFired()
			}
		}
		if Command("PSYNC")(r.items) { // a replica has read all replies before
			c.replies.streams.Store(true)
		}
		if len(r.items) > 0 && !c.replies.streams.Load() {
			c.answers.pending.push(r)
		}
		if _, err := c.server.Write(raw); err != nil {
			return // deliver sees the end, too, and ends the connection
		}
	}
	if c.pass(c.toServer.ticket(), nil) {
		_ = c.server.CloseWrite() // fails only if the server has closed
	}
}

// deliver sends to the client what the server says, and ends the connection after the last of it.
func (c *Conn) deliver() {
	for {
		f, err := c.replies.reply()
		if err != nil {
			c.pass(c.toClient.ticket(), c.gone)
			c.end(errors.Is(err, syscall.ECONNRESET))
			return
		}
		out := f.raw
		if r := c.answers.requestOf(f); r != nil && r.rule != nil {
			if out = c.act(r, out); out == nil {
				return
			}
		}
		if c.proxy.loses(f) {
			continue
		}
		c.pass(c.toClient.ticket(), c.gone)
		_, _ = c.client.Write(out) // fails if the client has gone; the server's replies are read on all the same
	}
}

// act does what a rule says to do with a reply, and returns what the client is to get; nil when the connection has
// ended.
func (c *Conn) act(r *request, reply []byte) []byte {
	switch r.action.kind {
	case dropReply:
		r.rule.noteAnswered()
		r.rule.noteFired()
		c.end(true)
		return nil
	case dropReplySilently:
		r.rule.noteAnswered()
		r.rule.noteFired()
		_, _ = io.Copy(io.Discard, c.server)
		c.pass(nil, c.gone) // nor may the client see that the server closes
		c.end(false)
		return nil
	case holdReply:
		ticket := r.rule.gate.ticket() // before the test can know and release
		r.rule.noteAnswered()
		r.rule.noteFired()
		c.pass(ticket, c.gone)
	case answer:
		r.rule.noteFired()
		return []byte(r.action.reply + "\r\n")
	default:
		r.rule.noteAnswered()
	}
	return reply
}

// pass waits for one of the channels; false when the connection has ended.
func (c *Conn) pass(ticket, or <-chan struct{}) bool {
	select {
	case <-ticket:
	case <-or:
	case <-c.done:
	}
	return !c.closed()
}
