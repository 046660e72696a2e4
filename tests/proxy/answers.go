package proxy

import (
	"slices"
	"strings"
)

// answers finds the request that a frame from the server belongs to. Replies come in the order of the requests, with
// two exceptions that make up this type: pushes belong to no request, and a subscription command is answered by one
// push for each of its channels instead of a reply. In RESP2, pushes are plain arrays.
//
// It does not understand CLIENT REPLY OFF and SKIP, which break the rule of one reply for one command. After PSYNC
// there are no replies.
type answers struct {
	pending    *queue // forwarded and not yet answered
	resp3      bool
	subscribed map[string]map[string]bool // channels by family: "" plain, "p" patterns, "s" sharded
}

func newAnswers() *answers {
	return &answers{pending: newQueue(), subscribed: map[string]map[string]bool{"": {}, "p": {}, "s": {}}}
}

// requestOf returns the request that a frame answers; nil for a push, and for a subscription command's confirmations
// after the first.
func (a *answers) requestOf(f frame) *request {
	head := a.pending.head()
	if !a.isPush(f, head) {
		a.pending.drop()
		if head != nil {
			a.noteProtocol(head, f)
		}
		return head
	}
	if len(f.items) < 2 || !isSubscription(f.items[0]) {
		return nil // a message, an invalidation
	}
	family := a.noteSubscription(f.items[0], f.items[1])
	if head == nil || !strings.EqualFold(head.items[0], f.items[0]) {
		return nil // the server's own idea: its slot has moved
	}
	head.confirmed++
	channels := len(head.items) - 1
	if head.confirmed == channels || channels == 0 && len(family) == 0 {
		a.pending.drop()
	}
	if head.confirmed > 1 {
		return nil
	}
	return head
}

// isPush tells a push from a reply. A RESP2 connection that is subscribed, or about to be, gets no reply that looks
// like a push: PING's begins with "pong".
func (a *answers) isPush(f frame, head *request) bool {
	if f.kind == '>' {
		return true
	}
	if a.resp3 || f.kind != '*' || len(f.items) == 0 {
		return false
	}
	kind := f.items[0]
	if head != nil && isSubscription(head.items[0]) && isSubscription(kind) {
		return true
	}
	return a.anySubscribed() && (isSubscription(kind) || isMessage(kind))
}

func isMessage(kind string) bool {
	return slices.Contains([]string{"message", "pmessage", "smessage"}, kind)
}

func isSubscription(kind string) bool {
	return slices.Contains([]string{
		"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe",
	}, strings.ToLower(kind))
}

func (a *answers) anySubscribed() bool {
	for _, channels := range a.subscribed {
		if len(channels) > 0 {
			return true
		}
	}
	return false
}

// noteSubscription follows one confirmation and returns the subscribed channels of its family.
func (a *answers) noteSubscription(kind, channel string) map[string]bool {
	prefix, isUnsubscribe := strings.CutSuffix(kind, "unsubscribe")
	if isUnsubscribe {
		delete(a.subscribed[prefix], channel)
		return a.subscribed[prefix]
	}
	prefix = strings.TrimSuffix(kind, "subscribe")
	a.subscribed[prefix][channel] = true
	return a.subscribed[prefix]
}

// noteProtocol follows the commands that change what pushes look like.
func (a *answers) noteProtocol(r *request, reply frame) {
	switch {
	case Command("HELLO")(r.items) && reply.kind != '-':
		a.resp3 = reply.kind == '%'
	case Command("RESET")(r.items):
		a.resp3 = false
		for _, channels := range a.subscribed {
			clear(channels)
		}
	}
}
