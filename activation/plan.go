// SPDX-License-Identifier: Apache-2.0

package activation

// Step is one step of a plan, as people read it. Step names come from the
// list below; Target is a path or a unit. Changes tells a step that changes
// the host from one that only looks.
type Step struct {
	Step    string `json:"step"`
	Target  string `json:"target"`
	Detail  string `json:"detail"`
	Changes bool   `json:"changes"`

	do action
}
