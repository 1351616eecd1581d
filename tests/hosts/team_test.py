"""Programs with a rank on each of four hosts, over UCX's TCP, started by mpirun: on a team, on comm, on arrays and on gas."""
import os
import subprocess
import unittest

import hosts
import workbench
from waiting import TIMEOUT_S, wait_for

# What mpirun calls as it would ssh: HOST COMMAND...
AGENT = """\
#!/bin/sh
case $1 in
{holders}
esac
shift
exec nsenter --target="$holder" --net --mount --uts --wdns=/ sh -c "$*"
"""


class TeamOnHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts(4)
        agent = hosts.SHARED / "agent"
        holders = "\n".join(f"{host.name}) holder={host.holder.pid} ;;" for host in cls.hosts)
        agent.write_text(AGENT.format(holders=holders))
        agent.chmod(0o755)
        settings = {
            "plm_rsh_agent": agent,
            "plm_rsh_no_tree_spawn": 1,
            "oob_tcp_if_include": hosts.DEVICE,
            "orte_abort_on_non_zero_status": 0,  # each rank comes to its own end
        }
        cls.mpirun = ["mpirun", "--allow-run-as-root", "--host", ",".join(host.name for host in cls.hosts)]
        cls.mpirun += [word for name, value in settings.items() for word in ("--mca", name, value)]
        cls.mpirun += ["-x", "UCX_TLS=tcp", "-x", f"UCX_NET_DEVICES={hosts.DEVICE}"]

    def start(self, name, *arguments):
        program = self.hosts[0].start(
            [*self.mpirun, workbench.BIN / name, *arguments],
            env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        return program

    def test_a_token_goes_around(self):
        program = self.start("example_ring", 100)
        output, errors = program.communicate(timeout=TIMEOUT_S)
        self.assertEqual((program.returncode, output), (0, "the token passed 400 ranks\n"), errors)

    def test_neighbours_get_what_they_need(self):
        for name in ["example_laplace", "example_heat"]:
            with self.subTest(name):
                output, errors = self.start(name).communicate(timeout=TIMEOUT_S)
                self.assertRegex(output, "^4 ranks, .* largest difference to one process alone 0\n$", errors)

    def test_a_graph_is_searched_by_all(self):
        edges = hosts.REPOSITORY / "examples" / "data" / "divisors.txt"
        output, errors = self.start("example_breadth_first_search", edges, 1).communicate(timeout=TIMEOUT_S)
        self.assertRegex(output, "^4 ranks: levels of 603 vertices, found right by one process alone\n", errors)

    def test_each_rank_says_which_rank_it_could_not_reach(self):
        program = self.start("example_ring", 10**9)
        received = self.hosts[2].path(f"sys/class/net/{hosts.DEVICE}/statistics/rx_packets")
        wait_for(lambda: int(received.read_text()) > 20_000, "the token to go around")
        self.hosts.cut_both(self.hosts[1], self.hosts[2])
        self.addCleanup(self.hosts.heal)
        output, errors = program.communicate(timeout=TIMEOUT_S)
        self.assertEqual(output, "")
        self.assertIn("rank 1: the token did not reach rank 2: timed out\n", errors)
        for rank, previous in [(2, 1), (3, 2), (0, 3)]:
            self.assertRegex(errors, f"rank {rank}: no token from rank {previous}: (timed out|peer lost)\n")


if __name__ == "__main__":
    hosts.isolate(["mpirun"])
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
