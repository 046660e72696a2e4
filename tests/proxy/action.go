package proxy

import "time"

// Times tells on which of the matching commands a rule acts: Times(n) on the nth only, counted over all connections
// since the rule was set.
type Times int

const (
	EveryTime Times = 0
	First     Times = 1
	Second    Times = 2
)

// Action is what a rule does to a command. The zero Action is Pass.
type Action struct {
	kind  actionKind
	delay time.Duration
	reply string
}

type actionKind int

const (
	pass actionKind = iota
	dropReply
	dropReplySilently
	resetBefore
	stall
	holdReply
	delay
	answer
)

// The actions. With those that lose a reply or a command, nothing that the client sends after it on the same
// connection reaches the server: it is the last thing that connection did. Other connections are not touched.
var (
	// Pass forwards the command as usual; such a rule only counts and remembers connections.
	Pass = Action{kind: pass}

	// DropReply lets the server run the command, and when the reply comes swallows it and resets the connection.
	// The rule has fired when the reply has come, and before the client can notice.
	DropReply = Action{kind: dropReply}

	// DropReplySilently lets the server run the command and swallows the reply. The connection stays open and
	// silent until the client closes it. The rule has fired when the reply has been swallowed.
	DropReplySilently = Action{kind: dropReplySilently}

	// ResetBefore resets the connection instead of forwarding the command; the server never sees it. Replies to
	// earlier commands may be lost with it. The rule has fired before the client can notice.
	ResetBefore = Action{kind: resetBefore}

	// Stall accepts the command and all that follows on its connection, and forwards nothing of it until the rule's
	// Release, then everything, even if the client has gone: like a load balancer or a retransmission that delivers
	// late. The rule has fired when the command has been accepted.
	Stall = Action{kind: stall}

	// HoldReply lets the server run the command and keeps the reply, and all that follows it, until the rule's
	// Release. The rule has fired when the reply has come.
	HoldReply = Action{kind: holdReply}
)

// Delay forwards the command, and what follows it on its connection, no sooner than d after it has come.
func Delay(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Answer gives the client this reply, in RESP without the line end, and never lets the server see the command:
// Answer("-LOADING Redis is loading the dataset in memory"). The server gets a PING in its place, which keeps replies
// in order.
func Answer(reply string) Action { return Action{kind: answer, reply: reply} }

// last says that nothing is forwarded after such a command.
func (a Action) last() bool {
	return a.kind == dropReply || a.kind == dropReplySilently || a.kind == resetBefore
}
