"""What follows from what has finished: the next vertices, results that may go, and the end of the job."""

from __future__ import annotations

from rekindle.core.actions import Action, Deploy, Finish, Release
from rekindle.core.job_state import JobState
from rekindle.core.scheduling import PipelinedRegionScheduling


class Progress:
    """Looks at the whole job, once after each event that may have changed it."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._scheduling = PipelinedRegionScheduling(state.job_graph, state.regions, state.vertices)

    def advance(self) -> list[Action]:
        self._state.changed = False
        return [*self._give_up(), *self._deploy(), *self._release(), *self._finish()]

    def _give_up(self) -> list[Action]:
        """Shuffles that still run although all who read them have finished. Their results count as missing: if
        they are needed after all, they are made again."""
        state, actions = self._state, list[Action]()
        done = state.needs.done()
        for vertex in state.vertices:
            running = vertex.started - vertex.finished
            if running and vertex.job_vertex.name in done:
                state.partitions.lose(vertex.job_vertex.name, running)
                tasks = [vertex.tasks[subtask] for subtask in sorted(running)]
                actions += state.cancel(tasks, "all who read it have finished")
        return actions

    def _deploy(self) -> list[Action]:
        deployments = self._scheduling.deploy_ready()
        return [Deploy(deployments, self._state.blocklist.nodes)] if deployments else []

    def _release(self) -> list[Action]:
        """Told once; a result that is made again after its release may be released again."""
        state, released = self._state, self._state.recovery.released
        fresh = [vertex for vertex in state.needs.releasable() if vertex not in released]
        released.update(fresh)
        for vertex in fresh:
            state.partitions.lose(vertex, state.vertices[vertex].finished)
        return [Release(vertex) for vertex in fresh]

    def _finish(self) -> list[Action]:
        state = self._state
        told, state.told_finish = state.told_finish, len(state.needs.done()) == len(state.job_graph.order)
        if told or not state.told_finish:
            return []
        return [Finish()]
