# SPDX-License-Identifier: Apache-2.0
"""Ray: call label_task() first in a task or in a method of an actor.

Not tested with Ray itself. Methods by its documentation:
https://docs.ray.io/en/latest/ray-core/api/doc/ray.runtime_context.RuntimeContext.html
"""
import ray
from ingero_labels import label


def label_task(**labels):
    context = ray.get_runtime_context()
    label(**{"ray.job": context.get_job_id(), "ray.task": context.get_task_id(), **labels})
