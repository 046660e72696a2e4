package embedded

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// A conn is one client's connection. Commands are handed on one at a time, so that the next reply is
// that of the last command.
type conn struct {
	server        *Server
	client, redis net.Conn
	inScript      atomic.Bool   // the last command runs a script
	subscribing   atomic.Bool   // it is one of subscriptions: each of its channels is answered by itself
	owed          atomic.Int64  // how many frames are still to come in answer to it
	replied       chan struct{} // received from when there is none
	done          chan struct{} // closed when the connection has ended
	once          sync.Once     // of end

	// The channels that the client listens to, with "p" and "s" in front of patterns and of sharded channels, and whether
	// it does without RESP3: messages look like replies then, but all else is refused. Only answer changes these, and only
	// while something is owed.
	channels map[string]bool
	plain    bool
}

// end closes both sides.
func (c *conn) end() {
	c.once.Do(func() {
		close(c.done)
		_ = c.client.Close()
		_ = c.redis.Close()
	})
}

// run serves the client until either side ends the connection.
func (c *conn) run() {
	defer c.server.forget(c)
	var wg sync.WaitGroup
	wg.Go(c.answer)
	c.serve()
	c.end()
	wg.Wait()
}

// serve hands the client's commands on.
func (c *conn) serve() {
	commands := newReader(c.client)
	for {
		command, err := commands.read()
		if err != nil {
			return
		}
		c.owed.Store(c.answers(command))
		if !c.handOn(command) {
			return
		}
		select {
		case <-c.replied:
		case <-c.done:
			return
		}
	}
}

// answers is how many frames answer a command, unless it is refused.
func (c *conn) answers(command frame) int64 {
	count := 1
	if of, ends := command.subscription(); command.subscribes() {
		named := len(command.words) - 1
		if named == 0 && ends { // all
			for channel := range c.channels {
				if strings.HasPrefix(channel, of+" ") {
					named++
				}
			}
		}
		count = max(count, named)
	}
	return int64(count)
}

// handOn gives the server a command, when it is not paused; false if the connection has ended.
func (c *conn) handOn(command frame) bool {
	s := c.server
	c.inScript.Store(command.runsScript())
	c.subscribing.Store(command.subscribes())
	for {
		s.turn.Lock()
		if s.paused == nil {
			break
		}
		resumed := s.paused
		s.turn.Unlock()
		select {
		case <-resumed:
		case <-c.done:
			return false
		}
	}
	defer s.turn.Unlock()
	s.setTime()
	_, err := c.redis.Write(command.raw)
	return err == nil
}

// answer passes the server's answer to the client.
func (c *conn) answer() {
	defer c.end()
	answers := newReader(c.redis)
	for {
		f, err := answers.read()
		push := err == nil && c.isPush(f)
		switch {
		case err != nil:
			return
		case push:
			if c.server.losesMessages.Load() && f.isMessage() && !f.isWakeUp() {
				continue
			}
		case c.inScript.Load() && c.server.losesReplies.Load() && !f.isNoScript():
			return
		}
		if _, err := c.client.Write(f.raw); err != nil {
			return
		}
		if !c.settles(f, push) {
			continue
		}
		select {
		case c.replied <- struct{}{}:
		case <-c.done:
			return
		}
	}
}

// isPush reports whether a frame of the server's is no reply.
func (c *conn) isPush(f frame) bool {
	if f.kind == '*' && f.subscribes() {
		return c.subscribing.Load()
	}
	return f.kind == '>' || f.kind == '*' && f.isMessage() && c.plain && len(c.channels) > 0
}

// settles reports whether nothing is owed any more to the client that waited for it.
func (c *conn) settles(f frame, push bool) bool {
	switch {
	case c.owed.Load() == 0: // nobody waits
		return false
	case !push: // a refusal answers all of a command
		c.owed.Store(0)
		return true
	case f.subscribes():
		of, ends := f.subscription()
		if len(f.words) > 1 { // else there was nothing to end
			c.channels[of+" "+f.words[1]] = true
			if ends {
				delete(c.channels, of+" "+f.words[1])
			}
		}
		c.plain = f.kind == '*'
		return c.owed.Add(-1) == 0
	}
	return false
}
