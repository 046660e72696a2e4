package holdfast

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

// A link is a connection that tells the session when it ends, before the client can look for another.
type link struct {
	net.Conn
	of     *links
	addr   string
	second bool // calls go on over another one
	direct *sharing.Direct
	spoken chan struct{} // closed by speak, when something is first written, or the connection is closed
	speak  func()
	ending sync.Once

	underWay func() int64  // how many calls of the session are
	lasted   time.Duration // how long the last gathering took; the writing goroutine's alone
	rests    time.Time     // until then it does not gather; the writing goroutine's alone

	// Of a direct call, its goroutine's alone until the connection is pipelined, and caller is nil for good.
	caller context.Context //nolint:containedctx // ends the call; nil: the connection does, which is given up
	until  time.Time       // when it is given up
	sent   bool            // some of the command has been written
	begun  bool            // some of the reply has been read
	owed   sharing.Owed    // replies; the reading goroutine's alone
	due    time.Time       // when the next bytes are; zero: when this call's are
}

func newLink(conn net.Conn, of *links, addr string) *link {
	spoken := make(chan struct{})
	return &link{
		Conn: conn, of: of, addr: addr, direct: of.directs.Begin(heeds(conn)), underWay: of.underWay,
		spoken: spoken, speak: sync.OnceFunc(func() { close(spoken) }),
	}
}

// Close may be called again, when the client has made another connection already, of which that is no news.
func (l *link) Close() error {
	l.ending.Do(l.end)
	return l.Conn.Close()
}

func (l *link) end() {
	l.speak()
	l.direct.End()
	if !l.second {
		l.of.stand.CompareAndDelete(l.addr, l)
	}
	l.of.mu.Lock()
	delete(l.of.open, l)
	l.of.mu.Unlock()
	l.of.tell(!l.second)
}

// heeds reports whether a connection's read may time out, and go on.
func heeds(conn net.Conn) bool {
	switch socket(conn).(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// SetDeadline is called for each direct call, and with no deadline when the connection turns pipelined.
func (l *link) SetDeadline(t time.Time) error {
	l.caller, l.until, l.sent, l.begun = nil, t, false, false
	if t.IsZero() {
		l.direct.End()
	} else {
		l.caller = l.direct.Caller()
	}
	return l.Conn.SetDeadline(t)
}

// Read waits until the client has said something. A server that has too many clients speaks first, and a client that
// gives the connection up before it has greeted panics at an answer to nothing.
//
// If the caller of a direct call leaves, Read answers in place of the server, whose own answer is left out when it
// comes: the client would close the connection if Read said that it has timed out. Read looks from time to time whether
// the caller is still there, since to be told would cost more than most replies take. It does so for every direct call,
// and after SetDeadline has set a later time: a timer that is brought forward has the runtime keep a thread awake. On a
// virtual machine with two cores, a cycle of calls is faster by a quarter then, and takes less of the processor.
func (l *link) Read(b []byte) (int, error) {
	<-l.spoken
	if !l.direct.Heeds() || l.direct.Ended() && l.owed.None() {
		return l.Conn.Read(b)
	}
	const most = 8 * soon
	for wait := soon; ; wait = min(2*wait, most) {
		l.look(wait)
		n, err := l.read(b)
		if n > 0 {
			l.due = time.Time{}
		}
		left, wrong := l.owed.Skip(b[:n])
		switch {
		case wrong != nil:
			return 0, wrong
		case len(left) > 0:
			l.begun = true
			return copy(b, left), nil
		case err == nil: // it was all owed
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		case l.caller != nil && l.caller.Err() != nil:
			return l.leave(b, err)
		case !time.Now().Before(l.until):
			return 0, err
		}
	}
}

// read reads also what has come in time while this process stood still.
func (l *link) read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && readable(socket(l.Conn)) {
		_ = l.SetReadDeadline(time.Now().Add(soon))
		return l.Conn.Read(b)
	}
	return n, err
}

// soon is how long after its caller a call ends at most if the reply is fast.
const soon = time.Millisecond

// look has the next read of a direct call end in time to look whether its caller is still there, or when the connection
// is given up.
func (l *link) look(wait time.Duration) {
	if l.until.IsZero() {
		return
	}
	now := time.Now()
	next := now.Add(wait)
	if l.caller != nil {
		if end, ends := l.caller.Deadline(); ends && end.After(now) && end.Before(next) {
			next = end
		}
	}
	if l.until.Before(next) {
		next = l.until
	}
	_ = l.SetReadDeadline(next)
}

// leave answers a call that its caller has left. A connection on which half an answer has come cannot be left, nor one
// that is silent, or that would soon have no room for another call.
func (l *link) leave(b []byte, err error) (int, error) {
	if l.due.IsZero() {
		l.due = l.until
	}
	if l.begun || l.owed.Many() || !time.Now().Before(l.due) {
		return 0, err
	}
	l.owed.Add()
	return copy(b, sharing.Ended), nil
}

// Write lets other goroutines run first if the connection is pipelined, and many calls are under way: those that they
// make meanwhile go out together in the next write, and the server answers them in one. With few calls, the server
// would stand still until all have come, and then the goroutines until all are answered.
func (l *link) Write(b []byte) (int, error) {
	l.speak()
	if l.caller != nil && !l.sent {
		l.sent = true
		if !isScript(b) {
			l.caller = nil
		}
	}
	const many = 40
	if l.underWay() >= many && l.direct.Ended() {
		l.gather(len(b))
	}
	return l.Conn.Write(b)
}

// gather costs next to nothing if no other goroutine can run, and saves a write for each goroutine that makes a call.
// But a goroutine that computes can make it last for milliseconds. If it then brings only a few calls, size bytes in
// all, gather pauses long enough to take at most 1 % of the time.
func (l *link) gather(size int) {
	const (
		long = time.Millisecond
		many = 4096 // bytes: some thirty calls
	)
	began := time.Now()
	if l.lasted > long && size < many {
		l.rests = began.Add(100 * l.lasted)
	}
	l.lasted = 0
	if began.After(l.rests) {
		runtime.Gosched()
		l.lasted = time.Since(began)
	}
}

// isScript reports whether a command runs one, and is none of those with which the client greets a server.
func isScript(command []byte) bool {
	_, name, _ := bytes.Cut(command, []byte("\n"))
	return bytes.HasPrefix(name, []byte("$7\r\nEVALSHA")) || bytes.HasPrefix(name, []byte("$4\r\nEVAL"))
}
