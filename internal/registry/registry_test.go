package registry_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/registry"
)

type member struct {
	registry.Links[*member]
	text string
}

func (m *member) Indexed() string { return m.text }

func TestMembersComeAndGo(t *testing.T) {
	var r registry.Registry[*member]
	a, b, c := &member{text: "a"}, &member{}, &member{text: "c"}
	assert.False(t, r.Any())
	r.Remove(a) // it is not there
	for _, gone := range []*member{a, b, c} {
		for _, m := range []*member{a, b, c} {
			r.Add(m)
		}
		assert.Equal(t, []*member{c, b, a}, r.All())
		assert.Equal(t, []*member{c, a}, r.Find([]string{"c", "none", "", "a"}))
		r.Remove(gone)
		r.Remove(gone)
		left := slices.DeleteFunc([]*member{c, b, a}, func(m *member) bool { return m == gone })
		assert.Equal(t, left, r.All())
		assert.Equal(t, gone.text != "c", len(r.Find([]string{"c"})) == 1)
		for _, m := range left {
			assert.True(t, r.Any())
			r.Remove(m)
		}
		assert.False(t, r.Any())
		assert.Empty(t, r.All())
	}
}
