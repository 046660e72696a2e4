// Package cluster asks a Redis Cluster for what any of its nodes can tell. The client sends commands
// without a key to a node of its choice, which may be one that is down.
package cluster

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Ask sends a command to one node after another until one answers, be it with a refusal. A silent node
// takes no more than its share of the time until ctx ends. If none answers, the error has what each said.
func Ask(ctx context.Context, client rueidis.Client, command ...string) (rueidis.RedisMessage, error) {
	message, _, err := ask(ctx, client, command...)
	return message, err
}

func ask(ctx context.Context, client rueidis.Client, command ...string) (message rueidis.RedisMessage, by string, err error) {
	nodes := client.Nodes()
	var silent []error
	for addr, node := range nodes {
		share, cancel := withShare(ctx, len(nodes)-len(silent))
		result := node.Do(share, node.B().Arbitrary(command...).Build())
		cancel()
		if err := result.NonRedisError(); err != nil {
			silent = append(silent, err)
			continue
		}
		message, err := result.ToMessage()
		return message, addr, err
	}
	if len(silent) == 0 {
		return message, "", errors.New("the client knows no node of the cluster")
	}
	return message, "", errors.Join(silent...)
}

// withShare ends when one of so many equal parts of what is left of ctx is over.
func withShare(ctx context.Context, parts int) (context.Context, context.CancelFunc) {
	if end, bounded := ctx.Deadline(); bounded {
		return context.WithTimeout(ctx, time.Until(end)/time.Duration(parts))
	}
	return context.WithCancel(ctx)
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
func Slots(ctx context.Context, client rueidis.Client) ([]Range, error) {
	answer, by, err := ask(ctx, client, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	entries, err := answer.ToAny()
	if err != nil {
		return nil, err
	}
	list, _ := entries.([]any)
	var ranges []Range
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

// address is where a node is: without a host at that of the node that was asked.
func address(host string, port int64, by string) string {
	switch host {
	case "?":
		return ""
	case "":
		host, _, _ = net.SplitHostPort(by)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}
