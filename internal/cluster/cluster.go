// Package cluster asks a Redis Cluster questions that any of its nodes can answer. The client sends commands without a
// key to a node of its choice, which may be one that is down.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/refusal"
)

// patience is for how long a node is waited for before the next one is asked as well.
const patience = 100 * time.Millisecond

// Ask sends a command to one node after another until one answers, be it with a refusal. A silent node keeps nobody
// waiting: the next one is asked meanwhile, in a goroutine that ends soon after the answer, or when the client closes.
// If none answers until ctx ends, the error has their errors. Where there is no cluster, it asks the server.
func Ask(ctx context.Context, client rueidis.Client, command ...string) (message rueidis.RedisMessage, err error) {
	if client.Mode() != rueidis.ClientModeCluster {
		return client.Do(ctx, client.B().Arbitrary(command...).Build()).ToMessage()
	}
	message, _, err = ask(ctx, client, func(f func()) { go f() }, isBusy, command...)
	return message, err
}

// isBusy reports whether a node says that it does nothing at the moment: which says nothing of the command.
func isBusy(answer rueidis.RedisResult) bool {
	return refusal.Says(answer.Error(), "BUSY ") || refusal.Says(answer.Error(), "LOADING ")
}

// Answering is the address of a node that answers, as Ask finds it.
func Answering(ctx context.Context, client rueidis.Client, start func(func())) (addr string, err error) {
	if _, addr, err = ask(ctx, client, start, nil, "PING"); addr != "" {
		return addr, nil
	}
	return "", err
}

// Master is Answering of a node that does not say that it is a replica.
func Master(ctx context.Context, client rueidis.Client, start func(func())) (addr string, err error) {
	if _, addr, err = ask(ctx, client, start, isReplica, hello); addr != "" {
		return addr, nil
	}
	return "", err
}

// hello is a command to which a node tells its role. It needs no right; from version 8 on, a user may have none to
// CLUSTER SLOTS, as the client asks for shards there.
const hello = "HELLO"

// IsReplica reports whether the node says that it is one.
func IsReplica(ctx context.Context, node rueidis.Client) bool {
	return isReplica(node.Do(ctx, node.B().Arbitrary(hello).Build()))
}

func isReplica(said rueidis.RedisResult) bool {
	about, _ := said.AsMap()
	role := about["role"]
	is, _ := role.ToString()
	return is == "replica"
}

var errUnfit = errors.New("the node is a replica")

// ask is Ask, and also returns which node has answered; "" if nobody has. Answers that are unfit do not count.
func ask(
	ctx context.Context, client rueidis.Client, start func(func()),
	unfit func(answer rueidis.RedisResult) bool, command ...string,
) (message rueidis.RedisMessage, by string, err error) {
	type answer struct {
		by string
		rueidis.RedisResult
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := known(ctx, client, start)
	left, answers := slices.Collect(maps.Keys(nodes)), make(chan answer, len(nodes))
	var failed []error
	for asked := 0; len(failed) < len(nodes); {
		var waited <-chan time.Time // never, if there is no other node
		if asked < len(left) {
			addr, node := left[asked], nodes[left[asked]]
			start(func() { answers <- answer{addr, node.Do(ctx, node.B().Arbitrary(command...).Build())} })
			asked++
			waited = time.After(patience)
		}
		select {
		case a := <-answers:
			err := a.NonRedisError()
			switch {
			case err != nil:
			case unfit != nil && unfit(a.RedisResult):
				err = cmp.Or(a.Error(), errUnfit)
			default:
				message, err = a.ToMessage()
				return message, a.by, err
			}
			failed = append(failed, err)
		case <-waited:
		case <-ctx.Done():
			return message, "", errors.Join(append(failed, context.Cause(ctx))...)
		}
	}
	if len(failed) == 0 {
		return message, "", errors.New("the client knows no node of the cluster")
	}
	return message, "", errors.Join(failed...)
}

// known are the nodes that the client knows. If it found one that is down before one that is up, it may know none yet:
// it asks again who they are before it sends a command with a key, which may fail.
func known(ctx context.Context, client rueidis.Client, start func(func())) map[string]rueidis.Client {
	if nodes := client.Nodes(); len(nodes) > 0 {
		return nodes
	}
	asked := make(chan struct{})
	start(func() {
		defer close(asked)
		_ = client.Do(ctx, client.B().Arbitrary("CLUSTER", "KEYSLOT").Keys("any").Build())
	})
	select {
	case <-asked:
	case <-time.After(10 * patience): // the one that is sent the command may be silent
	case <-ctx.Done():
	}
	return client.Nodes()
}

// A Range is slots that one master has.
type Range struct {
	First, Last int64
	Nodes       []Node // the master, then its replicas
}

// A Node is a server of a cluster.
type Node struct {
	Addr string // as the client has it; "" if the node that was asked does not know
	ID   string
}

// Slots returns who has which slots, as one node sees it. Slots without a master are in no range.
func Slots(ctx context.Context, client rueidis.Client, start func(func())) (ranges Map, err error) {
	answer, by, err := ask(ctx, client, start, nil, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	entries, err := answer.ToAny()
	if err != nil {
		return nil, err
	}
	list, _ := entries.([]any)
	for _, entry := range list {
		if r, ok := read(entry, by); ok {
			ranges = append(ranges, r)
		}
	}
	return ranges, nil
}

// read reads an entry of CLUSTER SLOTS: first, last, {host, port, id, ...} of the master, and of its
// replicas. It says no to one of another shape.
func read(entry any, by string) (r Range, ok bool) {
	fields, _ := entry.([]any)
	if len(fields) < 3 {
		return r, false
	}
	var first, last bool
	r.First, first = fields[0].(int64)
	r.Last, last = fields[1].(int64)
	for _, field := range fields[2:] {
		node, _ := field.([]any)
		if len(node) < 3 {
			return r, false
		}
		host, _ := node[0].(string)
		port, _ := node[1].(int64)
		id, _ := node[2].(string)
		r.Nodes = append(r.Nodes, Node{Addr: address(host, port, by), ID: id})
	}
	return r, first && last
}

// Named is the address of a node that another one has named in a refusal, perhaps without a host.
func Named(addr, by string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		host, _, _ = net.SplitHostPort(by)
		return net.JoinHostPort(host, port)
	}
	return addr
}

// address is where a node is: without a host at the host of the node that was asked.
func address(host string, port int64, by string) string {
	switch host {
	case "?":
		return ""
	case "":
		host, _, _ = net.SplitHostPort(by)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}
