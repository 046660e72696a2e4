package cluster_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/cluster"
)

func TestMap(t *testing.T) {
	a, b, c := cluster.Node{Addr: "a", ID: "1"}, cluster.Node{Addr: "b", ID: "2"}, cluster.Node{Addr: "c", ID: "3"}
	m := cluster.Map{
		{First: 0, Last: 99, Nodes: []cluster.Node{a, c}},
		{First: 100, Last: 299, Nodes: []cluster.Node{b}},
		{First: 400, Last: 400, Nodes: []cluster.Node{a, c}},
	}
	masters, replicas, slots := m.Count()
	assert.Equal(t, []int64{2, 1, 301}, []int64{masters, replicas, slots})
	assert.True(t, m.Has("a", 400, 400))
	assert.False(t, m.Has("a", 100, 399))
	assert.False(t, m.Has("c", 0, 400))
	assert.Equal(t, "a", m.MasterOf("c"))
	assert.Empty(t, m.MasterOf("b"))
	assert.Len(t, m.Of("a"), 2)
	assert.Equal(t, []string{"a"}, m.Without(map[string]rueidis.Client{"b": nil, "c": nil}))
	assert.Len(t, m, 3)
}

// A replica takes over only when most masters have lost its master, not when it alone has.
func TestWhichReplicaTakesOver(t *testing.T) {
	const view = "m 10.0.0.1:6379@16379 master,%s - 1 1 1 disconnected 0-5460\n" +
		"r 10.0.0.2:6379@16379 myself,slave%s m 0 0 1 connected\n" +
		"o 10.0.0.3:6379@16379 master,fail - 0 0 2 connected 5461-16383\n"
	assert.True(t, cluster.TakesOver(fmt.Sprintf(view, "fail", ""), "m"))
	assert.False(t, cluster.TakesOver(fmt.Sprintf(view, "fail?", ""), "m"))
	assert.False(t, cluster.TakesOver(fmt.Sprintf(view, "noflags", ""), "m"))
	assert.False(t, cluster.TakesOver(fmt.Sprintf(view, "fail", ",nofailover"), "m"))
	assert.False(t, cluster.TakesOver("txt", "m"))
}
