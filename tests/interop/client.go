package interop

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Kind is a kind of Redisson object; the table in Clients.java says what each is.
type Kind string

// The kinds that the Java program knows.
const (
	RLock            Kind = "rlock"
	Fenced           Kind = "fenced"
	NonReentrant     Kind = "nonreentrant"
	Spin             Kind = "spin"
	Fair             Kind = "fair"
	NonReentrantFair Kind = "nonreentrantfair"
	ReadLock         Kind = "readlock"  // of an RReadWriteLock
	WriteLock        Kind = "writelock" // of an RReadWriteLock
	MultiLock        Kind = "multilock" // of the locks of names written "one, two", on each of the client's servers
	RedLock          Kind = "redlock"   // likewise
	Semaphore        Kind = "semaphore"
	Expirable        Kind = "expirable" // a semaphore whose permits have leases
	Latch            Kind = "latch"
	Map              Kind = "map"
)

// Config is what a Redisson client is made with.
type Config struct {
	Addresses []string      // as host:port, of servers, of which only locks of several use more than the first
	Cluster   bool          // the addresses are of nodes of a cluster
	Timeout   time.Duration // of a command, which is sent once then; 0: Redisson's default, and its retries
	Watchdog  time.Duration // lockWatchdogTimeout; 0 is Redisson's default
	FairWait  time.Duration // fairLockWaitTimeout; 0 is Redisson's default
	Prefix    string        // a NameMapper that puts it in front of every name
}

// Client is a Redisson client, or one for each of several servers: what a session is in Go.
type Client struct {
	java *Java
	name string
	id   string
}

// Thread is a thread of the JVM that uses one client: an owner of locks.
type Thread struct {
	client *Client
	actor  string
	owner  string
}

// Object is a Redisson object as one thread uses it.
type Object struct {
	thread *Thread
	kind   Kind
	name   string
}

// Connect makes a client, which is shut down at the end of the test.
func (j *Java) Connect(tb testing.TB, config Config) *Client {
	tb.Helper()
	var urls []string
	for _, address := range config.Addresses {
		urls = append(urls, "redis://"+address)
	}
	client := &Client{java: j, name: fmt.Sprintf("client%d", j.clients.Add(1))}
	settings := []any{client.name, "addresses=" + strings.Join(urls, ","), fmt.Sprint("cluster=", config.Cluster)}
	if config.Timeout > 0 {
		settings = append(settings, fmt.Sprint("timeout=", config.Timeout.Milliseconds()))
	}
	if config.Watchdog > 0 {
		settings = append(settings, fmt.Sprint("watchdog=", config.Watchdog.Milliseconds()))
	}
	if config.FairWait > 0 {
		settings = append(settings, fmt.Sprint("fairwait=", config.FairWait.Milliseconds()))
	}
	if config.Prefix != "" {
		settings = append(settings, "prefix="+config.Prefix)
	}
	client.id = j.start(client.name, "connect", settings...).OK(tb).Value
	tb.Cleanup(func() {
		j.Resume() // if the test left it paused
		j.start(client.name, "shutdown", client.name).Wait(tb)
	})
	return client
}

// Redisson is the name of the library's file, in which is its release.
func (j *Java) Redisson(tb testing.TB) string {
	tb.Helper()
	return j.start("library", "redisson").OK(tb).Value
}

// Clock is what System.nanoTime says.
func (j *Java) Clock(tb testing.TB) time.Duration {
	tb.Helper()
	return time.Duration(j.start("library", "clock").OK(tb).Int())
}

// ID is the client's uuid, the first part of its owners; with several servers, of those on the first.
func (c *Client) ID() string { return c.id }

// Thread is the client's thread of that name, which is started on first use.
func (c *Client) Thread(tb testing.TB, name string) *Thread {
	tb.Helper()
	thread := &Thread{client: c, actor: c.name + "/" + url.QueryEscape(name)}
	thread.owner = c.id + ":" + c.java.start(thread.actor, "thread").OK(tb).Value
	return thread
}

// Owner is how the thread is written in Redis, the first one if there are several.
func (t *Thread) Owner() string { return t.owner }

// Interrupt interrupts what the thread is doing. A call that has not begun goes ahead.
func (t *Thread) Interrupt(tb testing.TB) {
	tb.Helper()
	t.client.java.start(t.client.name, "interrupt", t.actor).OK(tb)
}

// Asleep reports whether the thread waits for a lock, a permit or a latch and can do nothing but sleep until a message
// or a timer wakes it. It does not know the methods that wait in another way, as lockAndGetToken does.
func (t *Thread) Asleep(tb testing.TB) bool {
	tb.Helper()
	return t.client.java.start(t.client.name, "asleep", t.actor).OK(tb).Bool()
}

// Object is the Redisson object of a kind and name, in the hands of the thread.
func (t *Thread) Object(kind Kind, name string) *Object {
	return &Object{thread: t, kind: kind, name: name}
}

// Start begins a call of a Redisson method of the object, by its Java name, and returns at once. A time.Duration
// stands for a number and its TimeUnit, a []string for a list. Calls of one thread run one after the other.
func (o *Object) Start(method string, args ...any) *Call {
	args = append([]any{o.thread.client.name, o.kind, o.name, method}, args...)
	return o.thread.client.java.start(o.thread.actor, "call", args...)
}

// Do calls a method and fails the test if it throws.
func (o *Object) Do(tb testing.TB, method string, args ...any) Answer {
	tb.Helper()
	return o.Start(method, args...).OK(tb)
}

// Try calls a method that may throw.
func (o *Object) Try(tb testing.TB, method string, args ...any) Answer {
	tb.Helper()
	return o.Start(method, args...).Wait(tb)
}

// StartTurns has the thread take the lock over and over, without a pause, for some time after a warm-up. It waits for
// no turn longer than patience, if that is not negative, and has the lock for as long as its work takes. See
// [Answer.Turns].
func (o *Object) StartTurns(patience, warmUp, length, work time.Duration) *Call {
	args := []any{o.thread.client.name, o.kind, o.name, patience, warmUp, length, work}
	return o.thread.client.java.start(o.thread.actor, "turns", args...)
}
