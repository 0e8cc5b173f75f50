"""The pod network's two files, and what is taken out of the firewall after dockerd."""

import json
import subprocess

from tests.kind.firewall import removals
from tests.kind.network import Place, cni_config, node_script

PLACES = {"a": Place("172.18.0.2", "10.244.0.0/24"), "b": Place("172.18.0.3", "10.244.1.0/24")}


def test_a_node_has_a_route_to_the_pods_of_every_other_node():
    script = node_script("a", PLACES)
    assert "ip route replace 10.244.1.0/24 via 172.18.0.3" in script
    assert "10.244.0.0/24 via" not in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True, timeout=10)


def test_what_leaves_the_cluster_is_masqueraded_and_what_stays_is_not():
    rule = [line for line in node_script("b", PLACES).splitlines() if "MASQUERADE" in line]
    assert len(rule) == 1
    assert "-s 10.244.1.0/24 ! -d 10.244.0.0/16" in rule[0]


def test_pods_get_addresses_of_their_nodes_own_range():
    config = json.loads(cni_config("10.244.1.0/24"))
    assert [plugin["type"] for plugin in config["plugins"]] == ["ptp", "portmap"]
    assert config["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]


def test_dockers_rules_go_before_its_chains_and_no_other_rule_goes():
    rules = """-P FORWARD DROP
-N DOCKER
-N DOCKER-USER
-N KUBE-FORWARD
-A FORWARD -j DOCKER-USER
-A FORWARD -i eth0 -j ACCEPT
-A DOCKER-USER -j RETURN"""
    assert removals(rules.splitlines()) == [
        ["-D", "FORWARD", "-j", "DOCKER-USER"],
        ["-D", "DOCKER-USER", "-j", "RETURN"],
        ["-X", "DOCKER"],
        ["-X", "DOCKER-USER"],
    ]
