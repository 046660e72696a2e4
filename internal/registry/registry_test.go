package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/registry"
)

type member struct{ text string }

func (m *member) Indexed() string { return m.text }

func TestMembersComeAndGo(t *testing.T) {
	var r registry.Registry[*member]
	a, b, c := &member{text: "a"}, &member{}, &member{text: "c"}
	r.Remove(a) // it is not there
	for _, gone := range []*member{a, b, c} {
		for _, m := range []*member{a, b, c} {
			r.Add(m)
		}
		assert.Equal(t, []*member{c, a}, r.Find([]string{"c", "none", "", "a"}))
		r.Remove(gone)
		r.Remove(gone)
		assert.Equal(t, gone.text != "a", len(r.Find([]string{"a"})) == 1)
		assert.Equal(t, gone.text != "c", len(r.Find([]string{"c"})) == 1)
	}
}
