package networkpolicy_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// connectionsOfPod is the number of random connections to and from each pod. The default number of clusters has 10,000 of them.
const connectionsOfPod = 40

// seeds returns the first seed and the number of clusters. WMCO_POLICY_CLUSTERS=10000 compares more, and WMCO_POLICY_SEED=7 begins with
// that seed.
func seeds(t *testing.T) (first, count uint64) {
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return number("WMCO_POLICY_SEED", 1), number("WMCO_POLICY_CLUSTERS", 300)
}

// TestACLsDecideLikeTheAPI compares random policies, pods and connections: what Windows does by the compiled rules with what the text of
// the API says, and with the verdict that users see. The order of objects must not matter.
func TestACLsDecideLikeTheAPI(t *testing.T) {
	first, count := seeds(t)
	verdicts := map[bool]int{}
	reasons := map[networkpolicy.Reason]int{}
	policies := 0
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		r := random{rand.New(rand.NewPCG(seed, 0))}
		cluster := r.cluster()
		c, judge := compile(t, cluster), evaluator{cluster}
		policies += len(cluster.Policies)
		for _, p := range c.problems {
			reasons[p.Reason]++
		}
		for _, pod := range cluster.Pods {
			if !c.isEnforced(pod) {
				continue
			}
			acls := c.acls(t, pod)
			for range connectionsOfPod {
				conn := r.connection(cluster)
				if r.IntN(10) == 0 {
					conn.protocol, conn.port = icmp, 0
				}
				for _, direction := range []hns.Direction{hns.In, hns.Out} {
					got, want := decide(t, acls, direction, conn), judge.allows(pod, direction == hns.In, conn)
					if verdicts[want]++; got != want {
						t.Errorf("seed %d: pod %s/%s, %s, %v: Windows allows it: %t; the API: %t\n"+
							"again: WMCO_POLICY_SEED=%d WMCO_POLICY_CLUSTERS=1 go test .", seed, pod.Namespace, pod.Name, direction, conn, got, want, seed)
					}
					if v := c.verdict(t, pod, direction, conn); v.Allowed != got {
						t.Errorf("seed %d: pod %s/%s, %s, %v: Windows allows it: %t; the verdict is %+v", seed, pod.Namespace, pod.Name, direction, conn, got, v)
					}
				}
			}
		}
		compareOrders(t, r, cluster)
	}
	t.Logf("%d policies, %d connections allowed, %d not, problems: %v", policies, verdicts[true], verdicts[false], reasons)
	isCovered := min(verdicts[true], verdicts[false]) >= 10_000 && reasons[networkpolicy.Invalid] > 0 && reasons[networkpolicy.AddressFamily] > 0
	if count >= 300 && !isCovered {
		t.Error("the clusters cover too little")
	}
}

// compareOrders compiles the same cluster in another order. The order of rules and of peers within policies is not part of their meaning,
// either.
func compareOrders(t *testing.T, r random, c networkpolicy.Cluster) {
	t.Helper()
	sets, problems := compileSets(t, c)
	again, problemsAgain := compileSets(t, networkpolicy.Cluster{
		Policies: shuffled(r, c.Policies), Namespaces: shuffled(r, c.Namespaces), Pods: shuffled(r, c.Pods), Nodes: c.Nodes,
	})
	if !reflect.DeepEqual(problems, problemsAgain) {
		t.Errorf("in another order, the problems are %v instead of %v", problemsAgain, problems)
	}
	for _, p := range c.Policies {
		p.Spec.Ingress, p.Spec.Egress = shuffled(r, p.Spec.Ingress), shuffled(r, p.Spec.Egress)
		for i := range p.Spec.Ingress {
			p.Spec.Ingress[i].From, p.Spec.Ingress[i].Ports = shuffled(r, p.Spec.Ingress[i].From), shuffled(r, p.Spec.Ingress[i].Ports)
		}
		for i := range p.Spec.Egress {
			p.Spec.Egress[i].To, p.Spec.Egress[i].Ports = shuffled(r, p.Spec.Egress[i].To), shuffled(r, p.Spec.Egress[i].Ports)
		}
	}
	within, _ := compileSets(t, c)
	for _, other := range [][]policyset.Set{again, within} {
		if got, want := encode(t, other), encode(t, sets); !bytes.Equal(got, want) {
			t.Errorf("in another order, the sets are\n%s instead of\n%s", got, want)
		}
	}
}

func shuffled[T any](r random, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func encode(t *testing.T, sets []policyset.Set) []byte {
	t.Helper()
	var all []byte
	for _, s := range sets {
		data, err := policyset.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, data...), '\n')
	}
	return all
}

// TestEvaluatorFollowsAPI checks the evaluator with examples, because a mistake in both would remain unseen.
func TestEvaluatorFollowsAPI(t *testing.T) {
	for _, e := range examples(t, "examples.txt") {
		cluster := shop(e.policies...)
		c, judge := compiled{cluster: cluster}, evaluator{cluster}
		for text, want := range e.connections {
			from, to, conn := parse(t, cluster, text)
			got := true
			if to != nil && c.isEnforced(to) {
				got = judge.allows(to, true, conn)
			}
			if from != nil && c.isEnforced(from) {
				got = got && judge.allows(from, false, conn)
			}
			if got != want {
				t.Errorf("%s: %s is %t, want %t", e.name, text, got, want)
			}
		}
	}
}
